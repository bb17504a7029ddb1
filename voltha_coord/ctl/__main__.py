"""
``python -m voltha_coord.ctl`` is ``voltha-coordctl``.
"""

from . import main

main()

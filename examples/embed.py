"""
Embedding: an HTTP server becomes one of several that divide the work.

    python -m voltha_coord.embedded &       # or any Consul, on port 8500
    python embed.py web-1 8081 &
    python embed.py web-2 8082 &
    voltha-coordctl work add 'device_group_{1..4}'
    curl localhost:8081/device_group_1      # done, or refused: not its work

Stop one of the two: soon the other one does what it did.
"""

import os
import sys
from typing import Any

from klein import Klein
from twisted.web.server import Request

from voltha_coord.coordinator import Coordinator
from voltha_coord.events import Event


class Application:
    """
    What was there before: it serves requests about items.
    """

    http = Klein()

    def __init__(self, reactor: Any, name: str, port: int, consul: str) -> None:
        # All that is new.  It starts by itself.
        here = "127.0.0.1"
        self.coordinator = Coordinator(here, here, name, port, consul, reactor=reactor)
        self.coordinator.listen(self.happened)
        reactor.addSystemEventTrigger("before", "shutdown", self.coordinator.shutdown)

    def happened(self, event: Event) -> None:
        """
        Be told who leads, what this process is, how it stands with Consul.
        """
        print(self.coordinator.instance_id, event, flush=True)

    @http.route("/<item>")
    def serve(self, request: Request, item: str) -> str:
        """
        Do what is this process's to do; nobody else does it meanwhile.
        """
        if item in self.coordinator.worker.my_workload:
            return f"{item}: done by {self.coordinator.instance_id}\n"
        request.setResponseCode(404)
        return f"{item}: not mine; the leader, {self.coordinator.leader_id}, knows\n"


if __name__ == "__main__":
    from twisted.internet import reactor

    name, port = sys.argv[1], int(sys.argv[2])
    consul = os.environ.get("CONSUL", "localhost:8500")
    Application(reactor, name, port, consul).http.run("127.0.0.1", port)

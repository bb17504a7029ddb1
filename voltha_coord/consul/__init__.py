"""
Talking to Consul: transport, typed verbs, watches, transactions.
"""

# What a token of a voltha_coord process needs, and nothing more.

# The keys of its cluster: everything under the prefix.
key_prefix "service/voltha/" {
  policy = "write"
}

# Its session, on the node of its agent.  Name the nodes instead of the empty
# prefix where tokens are not shared among machines.
session_prefix "" {
  policy = "write"
}

# The service that carries its liveness check.
service "voltha-coord" {
  policy = "write"
}

# The state of that check, wherever its agent is.
node_prefix "" {
  policy = "read"
}

# The agent's own configuration, for voltha-coordctl doctor.
agent_prefix "" {
  policy = "read"
}

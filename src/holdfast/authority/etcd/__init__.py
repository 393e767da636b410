"""The authority on an etcd cluster: `backend` speaks the contract, `gateway` finds an endpoint that answers,
and `wire` has the messages of etcd's JSON gateway."""

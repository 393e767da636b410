"""What benchmarks share: the load they make (:mod:`.callers`), their way into a domain (:mod:`.access`), harm
to hosts (:mod:`.harm`, :mod:`.cut_host`), an etcd to run on (:mod:`.etcd_cluster`), and what they read of
processes and checkpoints meanwhile (:mod:`.usage`, :mod:`.call_counts`, :mod:`.checkpoints`). One runs at a
time (:mod:`.machine_lock`)."""

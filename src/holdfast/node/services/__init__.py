"""The services of a host, which run where their role is: `service_table` names them, `running` opens, feeds
and closes them; `directory_service` and `shipping_service` are two of them."""

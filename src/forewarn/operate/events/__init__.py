"""Events of jobs and new assessments: one schema, on the bus of a service, in `/v1/events` and in Kafka."""

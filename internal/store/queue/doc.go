// Package queue delivers the run requests in the ledger to the runners of a pool, and
// forwards cancel requests to them.
//
// The package promises that each request is delivered at least once, until a runner
// acknowledges it, and that tenants share the slots of a runner as package fairness
// defines. The server keeps a durable consumer for each tenant, pool and volume, because
// the state of deliveries must outlive a process. Other readers of the ledger need no
// durable consumer.
//
// The files, in reading order:
//
//   - queue.go: Queue, its options, and the ledger it reads
//   - consume.go: Consume and one delivery: acknowledgement, nak, heartbeat
//   - dispatch.go: gives free slots to tenants
//   - tenantqueue.go: the consumers of a tenant, and the requests taken ahead
//   - announce.go: notifications between the runners of a pool
//   - workconsumer.go: creates and lists the consumers; counts their unfinished requests
//   - reclaim.go: redelivers the requests of an earlier process
//   - release.go: delivers a waiting turn at once
//   - forget.go: drops the queues of idle tenants
//   - cancel.go: cancel requests
package queue

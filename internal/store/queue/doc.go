// Package queue delivers the run requests in the ledger to the runners of a pool, and
// forwards cancel requests to them.
//
// The package promises that each request is delivered at least once, until a runner
// acknowledges it, and that tenants share the slots of a runner as package fairness
// defines. The server keeps a durable consumer for each tenant, pool and volume, because
// the state of deliveries must outlive a process. Other readers of the ledger need no
// durable consumer.
//
// Package runner decides when a request is acknowledged or returned, and after which delay.
// Package fairness decides whose request gets a free slot.
//
// The files, in reading order:
//
//   - queue.go: Queue, its options, and the ledger it reads
//   - consume.go: Consume; sends the acknowledgement, the nak and the heartbeats of a delivery
//   - dispatch.go: gives free slots to tenants and requests to the runner; decides when the
//     consumers are asked; takes nothing while no events can be recorded
//   - tenantqueue.go: takes requests of a tenant ahead, limits them, and returns them; detects
//     a consumer with too many unacknowledged requests
//   - announce.go: notifies the runners of a pool of returned requests and free slots
//   - workconsumer.go: creates, configures and lists the consumers; counts their unfinished
//     requests
//   - reclaim.go: decides which requests of an earlier process are delivered again without
//     waiting for their ack deadline
//   - release.go: delivers a waiting turn immediately
//   - forget.go: drops the queues of idle tenants
//   - holders.go: keeps the runs that this process holds, for cancel requests of this process
//   - cancel.go: sends and answers cancel requests; finds out whether a runner holds a run
package queue

// Package feed reads new events of the ledger, and new output of runs, once for all clients
// that follow them. It also encodes them once.
//
// It promises:
//
//   - A follower gets each event of its tenant, or each line of its run, once and in order.
//   - No follower delays another one. A follower that is behind what a feed keeps reads
//     stored events or lines, by pages, until it has caught up. Clients that ask for a page
//     together share it.
//   - What a feed keeps is bounded. When the last follower leaves, the feed stops reading and
//     drops what it kept. A page of stored events or lines is kept for a second after it was
//     read, also without followers.
//
// httpapi/ledgerevents.go and httpapi/output.go follow the feeds for one client and decide
// how much memory its response holds; httpapi/sse.go and httpapi/eventstreams.go write what a
// feed returns.
//
// The files, in reading order:
//
//   - events.go: Events: reads and encodes new and stored events; decides how many are kept
//     for followers that are behind, and for how long
//   - output.go: Output: reads and encodes new and stored lines of runs with followers;
//     decides how often followers of output and of events get deliveries
//   - sharedpages.go: loads a page of stored events or lines once for clients that ask for it
//     together
package feed

// Package transport is the narrow interface between the runtime and whatever
// carries its messages. It imports the standard library only, so that a
// transport outside this repository depends on nothing else.
//
// A [Driver] opens a [Transport], one for each rank; a Transport makes a
// [Worker] for each polling thread. The measured loop calls three methods of a
// Worker, [Worker.Post], [Worker.Flush] and [Worker.Poll], which never block,
// lock or allocate; everything else is control and may take its time.
//
// # Contract
//
// A worker is connected to peers, which the caller numbers. On any connection
// both sides may call. A call carries a token that the caller chose; the other
// side polls it as a request with a token of the transport's, a reply handle;
// the reply posted with that handle arrives as a response with the caller's
// token. Requests and responses come in any order unless
// [Capabilities.Ordered] says otherwise. Every message that was posted and
// flushed arrives exactly once while both sides live: a transport on a lossy
// medium retransmits.
//
// Failures have three tiers. Back-pressure is a short count from Post and is
// not an error: the caller polls and tries again. The loss of a peer is an
// event, [EventPeerLost], and fails every call in flight to it. A returned
// error is an [*OpError] around one of the sentinels of this package and
// refuses the op, the peer or the worker, as the sentinel says.
//
// Package core/transporttest has a named test for every clause.
package transport

// Package hosts joins the hosts of a run. The coordinator, which is the command that measures,
// listens; an agent on each host dials it and from then on serves the coordinator over that
// connection (core/plugin/agent). Only the coordinator has an open port.
//
// # Tickets
//
// [Listen] makes a [Ticket]: the coordinator's addresses and a token of 128 random bits, fresh for
// each call. Both ends derive two Ed25519 keys from the token, one for the coordinator and one for
// agents, and check each other's key in TLS 1.3. So there is no certificate authority and no file,
// and a connection proves that both ends know the token, not which agent it is: all who have the
// ticket are trusted alike. The token is as good as a login to the hosts for the time of the run.
// Agents take it from the environment or standard input, because every user of a host can read the
// arguments of a process.
//
// # Joining
//
// After the TLS handshake the agent sends one message, [Hello]: its machine and its version. The
// coordinator answers with a refusal or with none. A connection without the right key is closed and
// logged, and costs a run nothing. An agent with the right key but of another version, or a second
// one on a machine, ends the run: the user started the wrong thing.
//
// # Loss
//
// The kernel finds a lost host: it gives a connection up once data or a keepalive probe has been
// unanswered for the host timeout, which is the coordinator's to set. Ranks that spin on every
// processor may starve an agent, but not the kernel's answers. An agent that is lost before all
// have joined ends the run as well.
package hosts

// Package calltable numbers the calls of one connection.
//
// A call travels with a small number, and its reply comes back with the same number. [Calls] has
// the calls of this side that wait for a reply, and [Requests] the peer's calls that wait for a
// reply from this side. Both are sized once and never allocate afterwards. One thread uses them.
package calltable

// Package kv is the load that every transport carries: a key-value store, an echo and a sink, and
// the format of their requests and responses.
//
// # Messages
//
// A message is a header of 16 bytes, followed by a value in some messages:
//
//	bytes 0-7    key<<8 | operation (request) or status (response)
//	bytes 8-11   version
//	bytes 12-15  checksum of the value and the key
//	bytes 16-    the value
//
// Integers are little-endian; a key is below 2^56.
//
//	GET     header with version and checksum 0
//	LOOKUP  the same header; asks for the entry's header only
//	PUT     header with version 0 and the checksum, then the value
//	ECHO    the same
//
// The response to a GET is the entry, header and value, as it is in the store: the wire format is
// the layout of the store, so a GET is answered by pointing at the entry, without encoding or
// copying. The response to a LOOKUP is the entry's header, and the response to a PUT its new
// header. The response to an ECHO is the request, and a sink answers a PUT with its key and
// checksum. A request that cannot be served is answered by a header with its status.
//
// # Verification
//
// [Check] detects a response that belongs to another key, is older than what the client has
// already seen, has the wrong length, or is damaged. The checksum covers the key, which detects a
// value of another key even if the header was replaced with it, and the length, which detects a
// cut value even if values differ in length. The version of an entry starts at 1 and grows by one
// with each PUT; versions are compared modulo 2^32.
//
// A client may send the same requests again. The values of any two of its requests differ in every
// word. So a lost part of a message is detected unless its place in memory still holds the same
// request from before; [config.Config.Requests] chooses the number of requests so that this never
// happens in rings and slots of a power of two. A stale entry has an old version in any case. The
// response to an earlier request of an echo or a sink has another checksum in its header.
package kv

// Package kv is the load that every transport carries: a key-value store, and
// the codec of its requests and responses.
//
// # Messages
//
// A message is a header of 16 bytes, and a value for some:
//
//	bytes 0-7    key<<8 | op (request) or status (response)
//	bytes 8-11   version
//	bytes 12-15  checksum of the value and the key
//	bytes 16-    the value
//
// Integers are little-endian; a key is less than 2^56.
//
//	GET     header with version and checksum 0
//	LOOKUP  the same, and asks for no more than the entry's header
//	PUT     header with version 0 and the checksum, then the value
//
// The response to a GET is the header and the value, as they lie in the store:
// wire format and store layout are the same, so that a GET is answered by
// pointing at the entry and nothing is encoded or copied. The response to a
// LOOKUP is the entry's header alone, and that to a PUT its new header. A
// request that cannot be served is answered by a header with its status.
//
// # Verification
//
// [Check] finds a response that belongs to another key, is older than the
// client's own knowledge, has the wrong length, or was damaged. The checksum
// covers the key, so that a value delivered for another key fails even where
// its header was exchanged with it, and the length, so that one that was cut
// fails even where values of any length are right. Versions grow by one with
// each PUT of a key, start at 1, and are compared modulo 2^32.
package kv

// Package bounce has the bounce memory of the tcpx transport and the unpackers that copy what
// arrives there to its destination. It knows nothing of peers or messages.
//
// An [Allocator] receives bytes from a data socket into bounce memory and returns them as
// [Fragment] values; an [Unpacker] copies the fragments of a request to its [Buffer]. The
// modes of the transport combine them:
//
//	mode    allocator   unpacker
//	host    [Pages]     [Host]: processors copy
//	gpu     [Pages]     [GPU]: a kernel or the copy engine of a GPU copies
//	devmem  [Dmabuf]    [Host] or [GPU]
//
// [Setup] resolves the mode and its options, and opens both. Nothing else imports the packages
// gpu, cuda and devmem.
//
// The *_datapath.go files run inside measured windows: they neither block, lock nor
// allocate.
package bounce

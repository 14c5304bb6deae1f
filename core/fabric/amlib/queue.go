package amlib

// Kind is the kind of a message.
type Kind uint32

// The kinds of arrivals. The kinds between them belong to the shims.
const (
	Call  Kind = 1
	Reply Kind = 2
	Lost  Kind = 7 // the peer is lost; the token is a Reason
)

// Reason is why a peer was lost: Closed, Corrupt or a negative error of the library.
type Reason int64

// The reasons that are not errors of the library.
const (
	Closed  Reason = 0
	Corrupt Reason = 1
)

// HeaderSize is the size in bytes of the header before each payload.
const HeaderSize = 16

// The declarations below have the layout of the shims' structs.

// Header precedes every payload.
type Header struct {
	Token  uint64
	Origin uint64 // the sender's nonce, XORed with the kind
}

// Send is a message to send. Its header and payload are in a slot.
type Send struct {
	Slot uint32
	Peer uint32
	Size uint64 // of the payload
}

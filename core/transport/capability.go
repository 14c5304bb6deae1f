package transport

// Capabilities is what a transport does beyond the contract. The conformance
// suite checks that what is declared is what is done.
type Capabilities struct {
	// Ordered: the requests of one peer are polled in the order of posting.
	Ordered bool `json:"ordered"`
	// Reliable: a message posted and flushed arrives as long as both sides
	// live; without it the runtime sweeps for lost calls.
	Reliable bool `json:"reliable"`
	// InterNode: peers may live on other hosts.
	InterNode bool `json:"inter_node"`
	// OneSided: the far side's processor takes no part in moving the bytes.
	OneSided bool `json:"one_sided"`
	// ZeroCopyReceive: an event's payload lies where the medium put it.
	ZeroCopyReceive bool `json:"zero_copy_receive"`
	// BorrowsOnSend: a posted payload must stay unchanged until the call's
	// response, or for a reply until the next Poll that returns no event.
	BorrowsOnSend bool `json:"borrows_on_send"`
	// Waits: workers implement [Waiter].
	Waits bool `json:"waits"`
	// TellsPeerLost: a peer that closes or dies is told as [EventPeerLost].
	TellsPeerLost bool `json:"tells_peer_lost"`
	// DeviceMemory: payloads may stay in device memory, but for their heads; see
	// [Event]. Workers implement [DeviceReader].
	DeviceMemory bool `json:"device_memory"`
}

// Limits bounds what may be asked of an open transport.
type Limits struct {
	// MaxPayload is the largest payload in bytes that Post takes.
	MaxPayload int `json:"max_payload"`
	// InlineSize is the largest payload in bytes that travels in one unit of
	// the medium together with its header; 0 where there is no such thing.
	InlineSize int `json:"inline_size"`
	// InFlight is the most calls in flight on one connection; 0 is no bound
	// but back-pressure.
	InFlight int `json:"in_flight"`
	// Peers is the most connections of one worker.
	Peers int `json:"peers"`
}

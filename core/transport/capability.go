package transport

// Capabilities is what a transport does beyond the contract. The conformance
// suite checks that what is declared is what is done.
type Capabilities struct {
	// Ordered: the requests of one peer are polled in the order of posting.
	Ordered bool `json:"ordered"`
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

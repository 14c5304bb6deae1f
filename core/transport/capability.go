package transport

// Capabilities are the promises that a transport makes beyond the contract. The conformance
// suite checks that it keeps those that it declares. Waits, Traces, DeviceMemory and DeviceSend go
// with interfaces of the workers: the host, which has no worker, reads the declaration, and options
// can decide whether a worker that has the methods supports them.
type Capabilities struct {
	// Ordered promises that requests of one peer are polled in the order of posting.
	Ordered bool `json:"ordered"`
	// Waits promises that workers implement [Waiter].
	Waits bool `json:"waits"`
	// TellsPeerLost promises an [EventPeerLost] for a peer that closes or dies.
	TellsPeerLost bool `json:"tells_peer_lost"`
	// Traces promises that workers implement [Recorder] and record transfers.
	Traces bool `json:"traces,omitempty"`
	// DeviceMemory declares that payloads may stay in device memory except for their first
	// Config.HostPrefix bytes (see [Event]), and promises that workers implement [DeviceWorker].
	DeviceMemory bool `json:"device_memory"`
	// DeviceSend declares that payloads of calls are sent from device memory. The runtime then
	// keeps the values of its clients there. It is declared only with DeviceMemory.
	DeviceSend bool `json:"device_send,omitempty"`
	// Goroutines declares that goroutines of the transport carry the messages: a worker passes
	// messages to them and takes messages from them. They, and the worker's Post, Flush and Poll
	// too, may allocate and take locks that are held for moments. Flush may call the library while
	// that cannot wait for the peer. None of the three may block. The goroutines need processors
	// and the collector, so the runtime runs its polling loops as goroutines instead of pinned
	// threads and leaves the collector on in windows. It must not depend on options.
	Goroutines bool `json:"goroutines,omitempty"`
}

// Limits bound the use of an open transport.
type Limits struct {
	// MaxPayload is the size in bytes of the largest payload that Post takes.
	MaxPayload int `json:"max_payload" bound:"<=exact"`
	// InlineSize is the size in bytes of the largest payload that travels with its header in
	// one unit of the medium, such as a cache line or a datagram; 0 if the medium has no unit.
	InlineSize int `json:"inline_size" bound:"<=exact"`
	// InFlight is the largest number of calls in flight on one connection; with 0, only
	// back-pressure bounds it.
	InFlight int `json:"in_flight" bound:"<=exact"`
	// Peers is the largest number of connections of one worker.
	Peers int `json:"peers" bound:"<=exact"`
}

// Needs estimates what a transport takes from the kernel, so that the host can refuse a run that
// does not fit before it starts. A value of 0 is unknown.
type Needs struct {
	WorkerFiles int `json:"worker_files,omitempty" bound:"<=exact"` // descriptors of a worker
	// descriptors of a connection, on each side
	PeerFiles int `json:"peer_files,omitempty" bound:"<=exact"`
	// bytes of a worker without connections
	WorkerMemory int `json:"worker_memory,omitempty" bound:"<=exact"`
}

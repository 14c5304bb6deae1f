package transport

// Path is one way that bytes take between a worker and its peers.
type Path struct {
	// Carrier is one of the media of [Properties], or a name of the transport's own.
	Carrier string `json:"carrier" bound:">=1,<=256"`
	// Local and Remote are the IP addresses of both ends. For MediumTCP they may be left out: the
	// runtime asks the process's sockets.
	Local  string `json:"local,omitempty" bound:"<=256"`
	Remote string `json:"remote,omitempty" bound:"<=256"`
	// LocalPort and RemotePort are the ports of datagrams, 0 if they are unknown: the kernel may
	// choose by them between routes that are equal. They are not in the result.
	LocalPort  uint16 `json:"-"`
	RemotePort uint16 `json:"-"`
	// Interface is the network interface. If it is left out, the runtime asks the kernel for the
	// route from Local to Remote.
	Interface string `json:"interface,omitempty" bound:"<=256"`
	// Device and Port name the port of an RDMA device.
	Device string `json:"device,omitempty" bound:"<=256"`
	Port   int    `json:"port,omitempty" bound:"<=255"`
	// Overhead is the most bytes that the transport adds to a message of any size, as headers or
	// messages of its own; the carrier's own headers are not included. With 0, it is unknown.
	Overhead int `json:"overhead_bytes,omitempty" bound:"<=1048576"`
	// Facts are what else the source says of the path, by name: [FactGIDIndex], [FactLinkLayer],
	// "lanes".
	Facts map[string]string `json:"facts,omitempty" bound:"<=1024,key>=1,key<=256,each<=4096"`
}

// FactGIDIndex is the name of the fact with which a path over an RDMA device names its entry in the
// port's table of addresses.
const FactGIDIndex = "gid_index"

// FactLinkLayer is the name of the fact with which a path over an RDMA device names what is below
// the port.
const FactLinkLayer = "link_layer"

// LinkEthernet is [FactLinkLayer] of a port whose packets need an entry in its table of addresses.
const LinkEthernet = "Ethernet"

package tcpx

import (
	"errors"
	"fmt"
	"time"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/devmem"
)

// devmemMode has a dmabuf that the NIC fills. It lies in the host's memory
// (/dev/udmabuf), so that processors and GPUs alike can unpack it. That bytes arrive
// there is written to Documentation/networking/devmem.rst of the kernel, and has not run
// on a NIC yet.
var devmemMode = mode{
	name:        "devmem",
	unpacks:     []string{unpackCPU, unpackKernel, unpackCopyEngine, unpackNone},
	available:   devmemAvailable,
	newUnpacker: newDevmemUnpacker,
	newIntake:   newDevmemIntake,
	options: []transport.Option{
		{
			Name: "interface", Type: transport.TypeString, Default: "",
			Help: "the NIC of mode devmem, such as eth0",
		},
		{
			Name: "queue", Type: transport.TypeInt, Default: "-1", Min: -1, Max: 1 << 16,
			Help: "receive queue that the flows of mode devmem are steered to; -1 for the last",
		},
		{
			Name: "header-split", Type: transport.TypeBool, Default: "false",
			Help: "turn header split of the NIC on in mode devmem, and off again at the end; otherwise it must be on",
		},
	},
}

// headroom is how many bytes of dmabuf there are for a byte of bounce memory: the
// payload of a packet of 1500 bytes takes a page, and as much again may wait in sockets.
const headroom = 6

// linearPages is how many pages there are for bytes that the NIC did not put into the
// dmabuf: enough for all that may be under way, should every flow go astray.
func (s *settings) linearPages() int {
	return (requests+max(s.peers, 1))*s.request/pageSize + maxVectors
}

func (s *settings) devmem() devmem.Options {
	return devmem.Options{
		Interface: s.options.String("interface"), Queue: s.options.Int("queue"), Split: s.options.Bool("header-split"),
		Size: s.dmabufSize(), Extra: s.linearPages() * pageSize,
	}
}

func (s *settings) dmabufSize() int { return headroom * (requests + max(s.peers, 1)) * s.request }

func devmemAvailable(s *settings) error {
	if err := devmem.Climb(s.devmem()); err != nil {
		return transport.Unavailable("mode devmem: %w", err)
	}
	if err := s.checkSteering(); err != nil {
		return err
	}
	if s.onGPU() {
		return gpuAvailable(s)
	}
	return nil
}

// checkSteering refuses data sockets that no rule of a NIC can name.
func (s *settings) checkSteering() error {
	if s.dataPort == 0 {
		return transport.Unavailable("mode devmem: data-port is 0, which is another port each time, and the NIC steers data sockets by their port: set data-port=5201, say, and then %s", s.steering())
	}
	return nil
}

// steering is what steers the data sockets to the queue. One end of a connection has the
// port of its own, the other end that of its peer.
func (s *settings) steering() string {
	flow, port, queue := "tcp4", "PORT", "N"
	if s.address.Is6() {
		flow = "tcp6"
	}
	if s.dataPort > 0 {
		port = fmt.Sprint(s.dataPort)
	}
	if chosen := s.options.Int("queue"); chosen >= 0 {
		queue = fmt.Sprint(chosen)
	}
	return fmt.Sprintf("ethtool -N %s flow-type %s dst-port %s queue %s, and again with src-port", s.options.String("interface"), flow, port, queue)
}

func newDevmemUnpacker(s *settings) (unpacker, error) {
	if s.onGPU() {
		return newGPUUnpacker(s)
	}
	return newHostUnpacker(s.unpackWorkers)
}

// noToken is the token of a fragment that the kernel wants nothing back for.
const noToken = ^uint32(0)

// maxDevmemSize is what the offset of a fragment can tell, for the dmabuf and the linear
// pages.
const maxDevmemSize = 1 << 32

// devmemIntake takes bytes where the NIC has put them.
type devmemIntake struct {
	binding  *devmem.Binding
	size     int // bytes of the dmabuf; linear pages follow
	receiver interface {
		Receive(socket int, buffers [][]byte, pieces int) (n int, control []byte, err error)
	}
	dontNeed func(socket int, ranges []devmem.TokenRange) (int, error)
	sync     bool // the processor reads what the NIC has written, or the heads of it

	buffers [][]byte       // of one receive
	pieces  []devmem.Piece // of one receive
	pages   []uint32       // linear pages that are free
	users   []uint16       // by linear page: fragments in it

	sockets []*devmemSocket // by descriptor; nil where there is none
	held    []heldToken     // by fragment.token
	free    []uint32        // unused entries of held
	touched []*devmemSocket // by a give

	unclaimed int // pages' worth of bytes that no request has set aside
	unit      int
	spare     int
	failed    error // of give, which cannot say so itself

	starved  int   // receives in a row without room, with nothing given back in between
	since    int64 // the first of them
	patience time.Duration
	starving starving
	counts   devmemCounts
	closed   bool
}

// starving are the errors of an intake that has no room and gets none back, by what is used
// up. Their causes are outside of this process.
type starving struct{ pages, tokens, fragments error }

func newStarving(s *settings) starving {
	name := s.options.String("interface")
	return starving{
		pages: transport.Unavailable("mode devmem: all %d pages for bytes that the NIC has not put into the dmabuf are in use, by requests that are not complete: "+
			"steer the data sockets to the queue (%s) and split headers (ethtool -G %s tcp-data-split on)", s.linearPages(), s.steering(), name),
		tokens: transport.Unavailable("mode devmem: all %d places for pieces of the dmabuf are in use, by requests that are not complete: "+
			"the NIC's packets are too small; use a larger MTU (ip link set %s mtu 9000), or a smaller request", s.dmabufSize()/pageSize, name),
		fragments: transport.Unavailable("mode devmem: a request has come in %d pieces and is not complete: "+
			"the NIC's packets are too small for it; use a larger MTU (ip link set %s mtu 9000), or a smaller request", maxFragments, name),
	}
}

// devmemCounts are what an intake has counted. They only grow.
type devmemCounts struct{ dmabufBytes, linearBytes, pieces, calls uint64 }

// devmemSocket is a data socket that has received.
type devmemSocket struct {
	tokens  *devmem.Tokens
	touched bool
}

// heldToken is a token of the kernel's. The socket is nil where that has ended.
type heldToken struct {
	socket *devmemSocket
	token  uint32
}

func newDevmemIntake(s *settings) (intake, error) {
	o := s.devmem()
	if whole := o.Size + o.Extra; whole > maxDevmemSize {
		return nil, refuse("request", "mode devmem would want %s of memory for %d peers, and the limit is %s",
			transport.FormatSize(int64(whole)), s.peers, transport.FormatSize(maxDevmemSize))
	}
	b, err := devmem.Open(o)
	if err != nil {
		return nil, fmt.Errorf("mode devmem, which takes a queue for each worker: %w", err)
	}
	d := newDmabufIntake(b.ID, o.Size, b.Memory, s)
	d.binding = b
	d.sync = s.unpack == unpackCPU || s.head > 0
	return d, nil
}

// newDmabufIntake is an intake but for the binding.
func newDmabufIntake(id uint32, size int, memory []byte, s *settings) *devmemIntake {
	d := &devmemIntake{
		binding: &devmem.Binding{ID: id, Memory: memory}, size: size,
		receiver: devmem.NewReceiver(maxVectors, maxFragments), dontNeed: devmem.DontNeed,
		buffers: make([][]byte, maxVectors), pieces: make([]devmem.Piece, maxFragments),
		pages: make([]uint32, s.linearPages()), users: make([]uint16, s.linearPages()),
		// A piece takes a page of the dmabuf at least, mostly.
		held: make([]heldToken, size/pageSize), free: make([]uint32, size/pageSize),
		unclaimed: (requests + s.peers) * s.request / pageSize, unit: s.request / pageSize, spare: s.peers,
		patience: s.timeout, starving: newStarving(s),
	}
	for i := range d.pages {
		d.pages[i] = uint32(i)
	}
	for i := range d.free {
		d.free[i] = uint32(i)
	}
	return d
}

func (d *devmemIntake) memory() []byte { return d.binding.Memory }

// forget is called before a data socket is closed: its tokens end with it, and its
// descriptor may soon be another socket's.
func (d *devmemIntake) forget(fd int) {
	if fd >= len(d.sockets) || d.sockets[fd] == nil {
		return
	}
	for i := range d.held {
		if d.held[i].socket == d.sockets[fd] {
			d.held[i].socket = nil
		}
	}
	d.sockets[fd] = nil
}

// counters implements what [transport.StatsReader] is put together from.
func (d *devmemIntake) counters(dst []transport.Stat) []transport.Stat {
	c := &d.counts
	return append(dst,
		transport.Stat{Name: "devmem_bytes", Help: "bytes that the NIC has put into the dmabuf", Value: c.dmabufBytes},
		transport.Stat{Name: "devmem_linear_bytes", Help: "bytes that came through the host's memory: split or steering is not as it should be", Value: c.linearBytes},
		transport.Stat{Name: "devmem_pieces", Help: "pieces of the dmabuf that were received", Value: c.pieces},
		transport.Stat{Name: "devmem_receives", Help: "calls that received something", Value: c.calls},
	)
}

func (d *devmemIntake) close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	return errors.Join(d.failed, d.binding.Close())
}

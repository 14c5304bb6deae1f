package erpc

// An exchange is a request of n packets and its response of m. Its packets are
// numbered through: request packet i has number i, response packet j has n-1+j.
// What the client sends is answered number by number:
//
//	number     client sends     server answers
//	0 .. n-2   request packet   credit return
//	n-1        request packet   response packet 0
//	n .. n+m-2 pull             response packet 1 .. m-1
//
// So n+m-1 packets go each way, and both sides count with one number. (eRPC, NSDI
// 2019, section 5.1, where a pull is a request for response.)

// packetsOf is how many packets a message of size bytes takes, of unit bytes each. An
// empty message takes one.
func packetsOf(size, unit int) int {
	if size <= unit {
		return 1
	}
	return (size + unit - 1) / unit
}

// piece is the part of a message that its packet i carries.
func piece(i, size, unit int) (from, to int) {
	from = i * unit
	return from, min(from+unit, size)
}

// exchange is where one side stands in one.
type exchange struct {
	requestPackets  int
	responsePackets int // 0 while it is not known
	requestSize     int
	responseSize    int
}

// limit is how many numbers the client may use as far as it knows.
func (x *exchange) limit() int {
	if x.responsePackets == 0 {
		return x.requestPackets
	}
	return x.requestPackets + x.responsePackets - 1
}

// verdict is what a packet means to a side that has seen all numbers before next.
type verdict uint8

const (
	inOrder verdict = iota
	past            // was seen before
	future          // something before it is missing, or it should not be there at all
	bad             // contradicts what is known of the exchange
)

// answer judges a packet from the server, of dataSize bytes: the client has seen all
// numbers before received and sent those before sent. A first response packet tells
// the size of the response, which is then in x.
func (x *exchange) answer(h *header, dataSize, received, sent, unit, largest int) verdict {
	n := int(h.number)
	switch {
	case n < received:
		return past
	case n > received || n >= sent:
		return future
	case (h.kind == kindResponse) != (n >= x.requestPackets-1):
		return bad
	case h.kind == kindCredit:
		if dataSize != 0 {
			return bad
		}
		return inOrder
	}
	size, first := int(h.size), n == x.requestPackets-1
	if size > largest || !first && size != x.responseSize {
		return bad
	}
	if from, to := piece(n-(x.requestPackets-1), size, unit); dataSize != to-from {
		return bad
	}
	if first {
		x.responseSize, x.responsePackets = size, packetsOf(size, unit)
	}
	return inOrder
}

// begin starts the server's side of an exchange with its first packet; it says no
// where that is not one.
func (x *exchange) begin(h *header, dataSize, unit, largest int) bool {
	size := int(h.size)
	if h.number != 0 || size > largest || dataSize != min(size, unit) {
		return false
	}
	*x = exchange{requestSize: size, requestPackets: packetsOf(size, unit)}
	return true
}

// requested judges a request packet of dataSize bytes at the server, which has seen
// all numbers before received.
func (x *exchange) requested(h *header, dataSize, received, unit int) verdict {
	n := int(h.number)
	if n >= x.requestPackets || int(h.size) != x.requestSize {
		return bad
	}
	if from, to := piece(n, x.requestSize, unit); dataSize != to-from {
		return bad
	}
	return order(n, received)
}

// pulled judges a pull at the server, once it has replied.
func (x *exchange) pulled(h *header, dataSize, received int) verdict {
	n := int(h.number)
	if n < x.requestPackets || n >= x.limit() || dataSize != 0 {
		return bad
	}
	return order(n, received)
}

func order(n, next int) verdict {
	switch {
	case n < next:
		return past
	case n > next:
		return future
	}
	return inOrder
}

package analyze

import (
	"math"
	"slices"
)

// network is the closed queueing network of a [Model].
type network struct {
	clients, inFlight, daemons int
	client, daemon             float64 // service demands in ns, of one operation over all of a kind
	delay                      float64
}

func (n network) calls() int { return n.clients * n.inFlight }

// exactCalls is the largest number of calls in flight for which the network is solved exactly. From
// about 1700 on, terms would underflow.
const exactCalls = 1 << 10

// solve returns the throughput in operations per ns over all clients. It is exact up to exactCalls.
// With more it is the bound, which exceeds the exact value there by at most 3%, and never decreases
// with the calls.
func (n network) solve() float64 {
	if n.calls() <= exactCalls {
		return n.exact()
	}
	return n.bound()
}

// exact solves the network exactly. Its normalizing constant is that of product-form networks
// (Baskett, Chandy, Muntz and Palacios, Open, Closed, and Mixed Networks of Queues with Different
// Classes of Customers, 1975). Of a class with N calls, N-n wait at their client or on the medium,
// which weighs outside(N-n), and n at the daemons. With m calls of all classes at D daemons of
// demand d, the daemons weigh d^m (m+D-1)!/(D-1)! over the product of all n!. So the constant is
//
//	G = sum over m of d^m (m+D-1)!/(D-1)! [x^m] (sum over n of outside(N-n) x^n/n!)^clients
//
// and the throughput of a class is G without one of its calls over G. All terms are positive. x is
// scaled by a factor with which the daemons weigh as much with all calls as without any. All their
// weights are then within exp(calls/e), so no term that counts underflows in the power.
func (n network) exact() float64 {
	demand := math.Log(n.daemon / float64(n.daemons))
	daemons := func(m int) float64 {
		factorial, _ := math.Lgamma(float64(m + n.daemons))
		return factorial
	}
	scale := demand + (daemons(n.calls())-daemons(0))/float64(n.calls())
	class, logClass := n.class(n.inFlight, scale)
	fewer, logFewer := n.class(n.inFlight-1, scale)
	others := power(class, n.clients-1)

	constant := func(own []float64) float64 { // its logarithm
		sum := math.Inf(-1)
		for m, of := range product(others, own) {
			sum = addLogs(sum, daemons(m)+float64(m)*(demand-scale)+math.Log(of))
		}
		return sum
	}
	return float64(n.clients) * math.Exp(constant(fewer)+logFewer-constant(class)-logClass)
}

// class returns the polynomial of a class with so many calls, divided by its largest coefficient,
// and the logarithm of that.
func (n network) class(calls int, scale float64) (coefficients []float64, log float64) {
	outside := n.outside(calls)
	coefficients = make([]float64, calls+1)
	log = math.Inf(-1)
	for i := range coefficients {
		factorial, _ := math.Lgamma(float64(i + 1))
		coefficients[i] = outside[calls-i] + float64(i)*scale - factorial
		log = max(log, coefficients[i])
	}
	for i := range coefficients {
		coefficients[i] = math.Exp(coefficients[i] - log)
	}
	return coefficients, log
}

// outside returns the logarithms of the weights of 0 to calls calls of one class at their client
// and on the medium: the sum over j of client^(k-j) delay^j/j!.
func (n network) outside(calls int) []float64 {
	list := make([]float64, calls+1)
	for k := 1; k <= calls; k++ {
		factorial, _ := math.Lgamma(float64(k + 1))
		list[k] = addLogs(list[k-1]+math.Log(n.client), float64(k)*math.Log(n.delay)-factorial)
	}
	return list
}

// addLogs returns the logarithm of the sum of two numbers given by theirs.
func addLogs(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(a, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// power returns a polynomial raised to an exponent, up to a factor that makes its largest
// coefficient 1.
func power(p []float64, exponent int) []float64 {
	result := []float64{1}
	for ; exponent > 0; exponent /= 2 {
		if exponent%2 == 1 {
			result = scaled(product(result, p))
		}
		if exponent > 1 {
			p = scaled(product(p, p))
		}
	}
	return result
}

func product(a, b []float64) []float64 {
	p := make([]float64, len(a)+len(b)-1)
	for i, x := range a {
		if x == 0 {
			continue
		}
		for j, y := range b {
			p[i+j] += x * y
		}
	}
	return p
}

// scaled divides the coefficients of p by the largest.
func scaled(p []float64) []float64 {
	top := slices.Max(p)
	for i := range p {
		p[i] /= top
	}
	return p
}

// OneCallEach returns the op/s of clients with one call in flight each at a single daemon, whose
// service of a call and the rest of a call's time are given in ns. With exponential service times
// it is that of [Model]. With fixed ones, no call waits for another until the daemon is always
// busy.
func OneCallEach(clients int, elsewhere, daemon float64) (exponential, fixed float64) {
	n := network{clients: clients, inFlight: 1, daemons: 1, daemon: daemon, delay: elsewhere}
	return 1e9 * n.solve(), 1e9 * n.bound()
}

// bound returns the throughput of a network in which no call waits for another until a station is
// always busy. No service times allow more, and fixed ones of clients with one call each and a
// single daemon reach it, as the calls fall into step.
func (n network) bound() float64 {
	return min(float64(n.calls())/(n.delay+n.client+n.daemon), n.saturation())
}

// calibrated returns the network with the delay that gives a throughput, or without delay if it
// cannot reach that.
func (n network) calibrated(throughput float64) network {
	n.delay = 0
	if n.solve() <= throughput {
		return n
	}
	low, high := 0.0, float64(n.calls())/throughput
	for range 60 {
		n.delay = (low + high) / 2
		if n.solve() > throughput {
			low = n.delay
		} else {
			high = n.delay
		}
	}
	return n
}

// saturation returns the throughput at which a station is always busy, which hides the delay. A
// client with one call in flight has no queue, and neither have daemons with one for each call.
func (n network) saturation() float64 {
	highest := math.Inf(1)
	if n.inFlight > 1 {
		highest = float64(n.clients) / n.client
	}
	if n.calls() > n.daemons {
		highest = min(highest, float64(n.daemons)/n.daemon)
	}
	return highest
}

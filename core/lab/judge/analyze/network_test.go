package analyze

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/base/config"
)

func TestNetworkByHand(t *testing.T) {
	// One call never waits.
	require.InEpsilon(t, 1.0/3000, network{clients: 1, inFlight: 1, daemons: 1, client: 500,
		daemon: 1000, delay: 1500}.solve(), 1e-9)
	// Clients with a daemon each for every call never wait either.
	require.InEpsilon(t, 16.0/3000, network{clients: 16, inFlight: 1, daemons: 1e6, client: 500,
		daemon: 1000, delay: 1500}.solve(), 1e-4)
	// Balanced stations: n/(n+k-1) over the demand of one, with k stations.
	require.InEpsilon(t, 2.0/3, network{clients: 1, inFlight: 2, daemons: 1, client: 1,
		daemon: 1}.solve(), 1e-9)
	require.InEpsilon(t, 32.0/34, network{clients: 1, inFlight: 32, daemons: 2, client: 1,
		daemon: 2}.solve(), 1e-9)
	// A machine repairman: 3 calls, 10 elsewhere, 1 at the daemon. R(1)=1, X=1/11, Q=1/11;
	// R(2)=12/11, X=2/(10+12/11)=22/122; Q=24/122; R(3)=146/122, X=3/(10+146/122).
	require.InEpsilon(t, 3/(10+146.0/122), network{clients: 1, inFlight: 3, daemons: 1, daemon: 1,
		delay: 10}.solve(), 1e-9)
	// Clients with one call each wait at the daemon alone, so their own time is like delay.
	require.InEpsilon(t, 3/(10+146.0/122), network{clients: 3, inFlight: 1, daemons: 1, client: 4,
		daemon: 1, delay: 6}.solve(), 1e-9)
	// Clients that are always busy share nothing. With a single class, whose calls visit any
	// client, they would have 16/31 of this.
	require.InEpsilon(t, 16.0/1000, network{clients: 16, inFlight: 1, daemons: 1, client: 1000,
		daemon: 1e-6}.solve(), 1e-6)
	// Many calls are limited by the slowest station.
	require.InEpsilon(t, 1.0/400, network{clients: 1, inFlight: 1000, daemons: 1, client: 100,
		daemon: 400, delay: 5000}.solve(), 1e-3)
	require.InEpsilon(t, 4.0/1600, network{clients: 4, inFlight: 1 << 18, daemons: 1, client: 1600,
		daemon: 100, delay: 5000}.solve(), 1e-3)
}

// drawn returns a network with up to so many calls in flight.
func drawn(t *rapid.T, clients, inFlight int) network {
	return network{
		clients:  rapid.IntRange(1, clients).Draw(t, "clients"),
		inFlight: rapid.IntRange(1, inFlight).Draw(t, "in flight"),
		daemons:  rapid.IntRange(1, 4).Draw(t, "daemons"),
		client:   rapid.Float64Range(1, 1000).Draw(t, "client"),
		daemon:   rapid.Float64Range(1, 1000).Draw(t, "daemon"),
		delay:    rapid.Float64Range(0, 10000).Draw(t, "delay"),
	}
}

// The solution is that of mean value analysis over all numbers of calls of each class.
func TestNetworkAgreesWithMeanValueAnalysis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawn(t, 4, 4)
		require.InEpsilon(t, meanValueAnalysis(n), n.solve(), 1e-9)
	})
}

func TestNetworkOfManyCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawn(t, 1, 1)
		n.clients = 1 << rapid.IntRange(0, 10).Draw(t, "clients")
		n.inFlight = exactCalls / n.clients
		x := n.solve()
		require.LessOrEqual(t, x, n.bound()*(1+1e-9))
	})
}

// More calls than can be solved exactly achieve no less, and hardly more than the exact solution,
// which still works for somewhat more.
func TestNetworkBeyondTheExactSolution(t *testing.T) {
	for _, delay := range []float64{100, 900, 1000, 1100, 2000} {
		m := Model{Clients: 1000, Daemons: 1, InFlight: 1, CallingRanks: 1, ServingRanks: 1,
			ClientTime: 1e-3, DaemonTime: 1, Delay: delay, Measured: 1}
		p, err := m.Predict("clients=1100")
		require.NoError(t, err)
		more := m.network()
		more.clients = 1100
		require.InEpsilon(t, more.exact()/m.network().exact(), p.Throughput/p.Measured, 0.03,
			"delay %v", delay)
		require.GreaterOrEqual(t, p.Throughput/p.Measured, 1-1e-9, "delay %v", delay)
	}
}

// meanValueAnalysis solves a network (Reiser and Lavenberg, Mean-Value Analysis of Closed
// Multichain Queuing Networks, 1980). Its time grows exponentially with the number of clients.
func meanValueAnalysis(n network) float64 {
	type queues struct{ clients, daemons []float64 } // by class; all daemons together
	known := map[string]queues{}
	throughput := 0.0
	var solve func(calls []int) queues
	solve = func(calls []int) queues {
		key := fmt.Sprint(calls)
		if q, is := known[key]; is {
			return q
		}
		q := queues{make([]float64, n.clients), make([]float64, n.clients)}
		throughput = 0
		rates := make([]float64, n.clients)
		for c := range calls {
			if calls[c] == 0 {
				continue
			}
			calls[c]--
			found := solve(calls)
			calls[c]++
			atDaemons := 0.0
			for _, of := range found.daemons {
				atDaemons += of
			}
			client := n.client * (1 + found.clients[c])
			daemons := n.daemon * (1 + atDaemons/float64(n.daemons))
			rates[c] = float64(calls[c]) / (n.delay + client + daemons)
			q.clients[c], q.daemons[c] = rates[c]*client, rates[c]*daemons
		}
		throughput = 0
		for _, rate := range rates {
			throughput += rate
		}
		known[key] = q
		return q
	}
	calls := make([]int, n.clients)
	for c := range calls {
		calls[c] = n.inFlight
	}
	solve(calls)
	return throughput
}

func TestCalibration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawn(t, 16, 16)
		x := n.solve()
		require.InEpsilon(t, x, n.calibrated(x).solve(), 1e-6)
	})
	// Even without delay it is slower than measured.
	require.Zero(t, network{clients: 1, inFlight: 1, daemons: 1, client: 100,
		daemon: 100}.calibrated(1).delay)
}

// The solution is that of a simulated network.
func TestNetworkAgreesWithSimulation(t *testing.T) {
	for _, n := range []network{
		{clients: 16, inFlight: 1, daemons: 1, client: 50, daemon: 100, delay: 1000},
		{clients: 16, inFlight: 1, daemons: 1, client: 1000, daemon: 10, delay: 100},
		{clients: 1, inFlight: 32, daemons: 1, client: 90, daemon: 100, delay: 1000},
		{clients: 4, inFlight: 8, daemons: 1, client: 300, daemon: 100, delay: 1000},
		{clients: 4, inFlight: 8, daemons: 3, client: 100, daemon: 100, delay: 300},
		{clients: 16, inFlight: 4, daemons: 4, client: 100, daemon: 300, delay: 5000},
		{clients: 1, inFlight: 1, daemons: 2, client: 100, daemon: 100, delay: 100},
	} {
		require.InEpsilon(t, simulate(n, exponential), n.solve(), 0.01, "%+v", n)
	}
}

// Deterministic times lose nothing to queues while no station is always busy, so the model is a
// lower bound.
func TestDeterministicTimesAreFaster(t *testing.T) {
	for _, clients := range []int{1, 4, 8, 11, 16, 32} {
		n := network{clients: clients, inFlight: 1, daemons: 1, client: 1, daemon: 100, delay: 1000}
		fixed := simulate(n, deterministic)
		require.InEpsilon(t, n.bound(), fixed, 1e-3, "%d clients", clients)
		require.LessOrEqual(t, n.solve(), fixed*1.001)
		t.Logf("%d clients: exponential times have %.3f of the throughput of fixed ones", clients,
			n.solve()/fixed)
	}
}

func exponential(r *rand.Rand, mean float64) float64 { return r.ExpFloat64() * mean }

func deterministic(_ *rand.Rand, mean float64) float64 { return mean }

// simulate returns the throughput of a network over a million operations.
func simulate(n network, service func(r *rand.Rand, mean float64) float64) float64 {
	const warmUp, operations = 50_000, 1_000_000
	random := rand.New(rand.NewPCG(1, 2))
	free := make([]float64, n.clients+n.daemons) // when each station has served those that came
	var calls events
	for c := range n.clients {
		for range n.inFlight {
			calls = append(calls, event{0, c, atClient})
		}
	}
	serve := func(station int, now, mean float64) float64 {
		free[station] = max(free[station], now) + service(random, mean)
		return free[station]
	}
	started := 0.0
	for done := 0; ; {
		e := calls[0]
		switch e.step {
		case atClient:
			e.at = serve(e.client, e.at, n.client)
		case onMedium:
			e.at += service(random, n.delay)
		case atDaemon:
			e.at = serve(n.clients+random.IntN(n.daemons), e.at, n.daemon)
			if done++; done == warmUp {
				started = e.at
			}
			if done == warmUp+operations {
				return operations / (e.at - started)
			}
		}
		e.step = (e.step + 1) % steps
		calls[0] = e
		heap.Fix(&calls, 0)
	}
}

// The steps of an operation.
const (
	atClient = iota
	onMedium
	atDaemon
	steps
)

// event is a call that takes its next step.
type event struct {
	at           float64
	client, step int
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(any)          { panic("the number of calls is constant") }
func (e *events) Pop() any          { panic("the number of calls is constant") }

// The largest configurations are solved in about as many steps as those with [exactCalls].
func TestLargestNetworks(t *testing.T) {
	const threads = config.MaxRanks * config.MaxThreads
	for _, n := range []network{
		{clients: 1024, inFlight: config.MaxInFlight, daemons: 1, client: 120, daemon: 300},
		{clients: threads, inFlight: config.MaxInFlight, daemons: threads, client: 120,
			daemon: 300},
		{clients: 1, inFlight: config.MaxInFlight, daemons: threads, client: 120, daemon: 300},
		{clients: threads, inFlight: 1, daemons: 1, client: 120, daemon: 300},
	} {
		c := n.calibrated(n.saturation() / 2)
		require.InEpsilon(t, n.saturation()/2, c.solve(), 0.01)
	}
}

package runner

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// LimitError reports a limit of the kernel that a run exceeds or has met. Its text has the remedy.
type LimitError struct {
	Problem string
	Err     error // what failed; nil if nothing was started
}

func (e *LimitError) Error() string {
	if e.Err != nil {
		return e.Err.Error() + "; " + e.Problem
	}
	return e.Problem
}

func (e *LimitError) Unwrap() error { return e.Err }

// What a process takes before any load, as measured; docs/limits.md has the commands.
const (
	// processMemory is the resident memory of a rank: the Go runtime, the program and the control
	// plane.
	processMemory = 24 << 20
	// threadMemory is that of a polling thread: histograms, requests, and the loop on the null
	// transport.
	threadMemory = 6 << 20
	// connectionMemory is what a transport allocates for a peer, without payloads.
	connectionMemory = 64 << 10

	// A client holds its requests, and its loop on the null transport as many of them as fit in
	// nullRequests. Per call in flight there is also room in the transport and in the probes, on
	// both sides.
	nullRequests = 16 << 20
	callCopies   = 12

	processFiles = 20
	rankFiles    = 6 // of the command and of the keeper of plugins, for each rank

	// processTasks are the threads of a process beside its polling threads.
	processTasks = 12
	// processSpace and threadSpace are address space: what the Go and C libraries reserve.
	processSpace = 3 << 29
	threadSpace  = 32 << 20
)

// CheckStart returns a [*LimitError] if the limits do not allow to start any plugin.
func CheckStart(limits machine.Limits) error {
	// The command, the keeper of plugins and one plugin.
	return checkGranted(limits, processFiles+rankFiles, 3*processTasks, processSpace, "")
}

// Check returns why Run refuses a request before it starts a rank, or nil.
func Check(req Request) error {
	return cmp.Or(checkLimits(req.Config, req.Limits), checkResources(req))
}

// checkResources returns an error if the run exceeds what the machine grants: a [*LimitError], or a
// [*config.Error] if less load is the only remedy.
func checkResources(req Request) error {
	for _, h := range req.used() {
		var ranks []int
		for rank := range req.Config.Ranks {
			if req.hostOf(rank) == h {
				ranks = append(ranks, rank)
			}
		}
		host := req.hosts()[h]
		if err := checkHost(req.Config, req.Needs, ranks, host.Limits,
			host.Environment.Volatile.AvailableMemory); err != nil {
			if host.Name == "" {
				return err
			}
			return fmt.Errorf("host %s: %w", host.Name, err)
		}
	}
	return nil
}

// checkHost checks what the ranks of one host exceed there.
func checkHost(cfg config.Config, needs transport.Needs, ranks []int, limits machine.Limits,
	available uint64) error {
	files, tasks, threads := processFiles+rankFiles*len(ranks), (2+len(ranks))*processTasks, 0
	own := 0 // polling threads of these ranks
	for _, rank := range ranks {
		daemons, clients := cfg.Threads(rank)
		tasks += daemons + clients
		own += daemons + clients
		threads = max(threads, daemons+clients)
		workers, peers := daemons+clients, daemons*cfg.TotalClients()+
			clients*cfg.ServingRanks()*cfg.Daemons
		if cfg.Proxied() {
			workers, peers = daemons, daemons*(cfg.Ranks-1)
		}
		files = max(files, processFiles+workers*needs.WorkerFiles+peers*needs.PeerFiles)
	}
	if err := checkGranted(limits, files, tasks, processSpace+threads*threadSpace,
		", or use fewer ranks, daemons or clients"); err != nil {
		return err
	}
	all := cfg.TotalClients() + cfg.ServingRanks()*cfg.Daemons
	return checkMemory(cfg, needs, available, float64(own)/float64(all))
}

// checkGranted compares needs with limits; a limit of 0 is unknown.
func checkGranted(limits machine.Limits, files, tasks, space int, less string) error {
	exceeds := func(need int, limit uint64) bool { return limit > 0 && uint64(need) > limit }
	switch {
	case exceeds(files, limits.OpenFiles):
		return &LimitError{Problem: fmt.Sprintf("open files: a process of this run needs about "+
			"%d, but the limit is %d; raise it with ulimit -n %d%s",
			files, limits.OpenFiles, max(1024, 2*files), less)}
	case exceeds(tasks, limits.Tasks):
		return &LimitError{Problem: fmt.Sprintf("processes: the run needs about %d threads, but "+
			"this user or its control group may start only %d more; raise ulimit -u or pids.max%s",
			tasks, limits.Tasks, less)}
	case exceeds(space, limits.AddressSpace):
		return &LimitError{Problem: fmt.Sprintf("address space: a process of this run reserves "+
			"about %.1f GiB, but the limit is %.1f GiB; raise it with ulimit -v unlimited%s",
			gibibytes(float64(space)), gibibytes(float64(limits.AddressSpace)), less)}
	}
	return nil
}

func gibibytes(n float64) float64 { return n / (1 << 30) }

// need is a part of a run's memory and the option that determines it.
type need struct {
	option string
	bytes  float64
}

// memoryNeeds estimates the memory of all ranks together.
func memoryNeeds(cfg config.Config, needs transport.Needs) []need {
	daemons, clients := float64(cfg.ServingRanks()*cfg.Daemons), float64(cfg.TotalClients())
	message := float64(cfg.LargestMessage())
	calls, _ := cfg.Requests()
	requests := float64(calls) * message
	workers, connections := daemons+clients, daemons*clients
	if cfg.Proxied() {
		workers, connections = daemons, daemons*float64(cfg.Ranks-1)
	}
	return []need{
		{"ranks", float64(cfg.Ranks)*processMemory + (daemons+clients)*threadMemory +
			workers*float64(needs.WorkerMemory) + connections*connectionMemory},
		{"keys", float64(cfg.StoredKeys()) * message}, // unused slots have no pages
		{"in-flight", clients * (requests + min(requests, nullRequests) +
			float64(callCopies*cfg.InFlight)*message)},
	}
}

// checkMemory returns an error if a host's share of the run, by polling threads, needs more than
// its available memory in bytes; 0 is unknown.
func checkMemory(cfg config.Config, needs transport.Needs, available uint64, share float64) error {
	total, largest := 0.0, need{}
	for _, n := range memoryNeeds(cfg, needs) {
		total += share * n.bytes
		if n.bytes > largest.bytes {
			largest = n
		}
	}
	if available == 0 || total <= float64(available) {
		return nil
	}
	remedy := map[string]string{
		"ranks":     "use fewer ranks, daemons or clients",
		"keys":      "use fewer keys or smaller values",
		"in-flight": "use fewer clients, fewer calls in flight or smaller values",
	}[largest.option]
	return &config.Error{Option: largest.option, Problem: fmt.Sprintf(
		"the run needs about %.1f GiB of memory, but only %.1f GiB are available; %s",
		gibibytes(total), gibibytes(float64(available)), remedy)}
}

// explainLimit adds the limit that most likely made a rank fail, which a check before the start
// could not know. oomKills is the number of [machine.Root.OOMKills] during the run.
func explainLimit(err error, limits machine.Limits, oomKills uint64) error {
	var died *record.ExitError
	dead := errors.As(err, &died)
	switch {
	case err == nil:
		return nil
	case dead && oomKills > 0:
		return &LimitError{"the kernel killed a process for lack of memory: use fewer clients, " +
			"fewer calls in flight or smaller values, or raise the limit of the control group", err}
	case strings.Contains(err.Error(), "too many open files"):
		return &LimitError{fmt.Sprintf("the limit of open files is %d: raise it with ulimit -n, "+
			"or use fewer ranks, daemons or clients", limits.OpenFiles), err}
	case limits.AddressSpace != machine.Unlimited && limits.AddressSpace > 0 &&
		(dead || strings.Contains(err.Error(), "cannot allocate memory")):
		return &LimitError{
			fmt.Sprintf("the limit of address space is %.1f GiB: raise it with ulimit -v unlimited",
				gibibytes(float64(limits.AddressSpace))), err}
	}
	return err
}

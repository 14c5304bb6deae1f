package analyze

import (
	"fmt"
	"math"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/format"
)

// The names of breakdowns.
const (
	remoteName    = "remote request"
	operationName = "operation"
	loopName      = "daemon's loop"
	processorName = "processor time"
)

// breakdowns returns all breakdowns for which there are figures, that of a remote request first.
func (e *measurements) breakdowns() []Breakdown {
	list := []Breakdown{}
	for _, make := range []func() (Breakdown, bool){e.remoteRequest, e.call, e.operation, e.loop,
		e.processor} {
		if b, ok := make(); ok {
			list = append(list, b)
		}
	}
	return list
}

// finish adds the unexplained part, and computes the shares.
func finish(b Breakdown, help string) Breakdown {
	rest := b.Whole
	for _, p := range b.Parts {
		rest -= p.Mean
	}
	if math.Abs(rest) < 1e-4*b.Whole { // rounding error
		rest = 0
	}
	b.Parts = append(b.Parts, Part{Name: Unexplained, Mean: rest, Help: help})
	for i := range b.Parts {
		b.Parts[i].Share = b.Parts[i].Mean / b.Whole
	}
	return b
}

// remoteRequest splits the service time of a remote request of mesh-proxied into its stages. It
// splits the stage after the doorbell into floor, turnaround of the other daemon, and the rest.
func (e *measurements) remoteRequest() (Breakdown, bool) {
	if e.stages == nil {
		return Breakdown{}, false
	}
	b := Breakdown{Name: remoteName,
		Title: "a remote request, from its client's call to the response",
		Whole: e.stages.Whole.Mean}
	for i, name := range e.stages.Names {
		mean := e.stages.Spreads[i].Mean
		if name != record.StageNames[2] {
			b.Parts = append(b.Parts, Part{Name: name, Mean: mean, Help: stageHelp[name]})
			continue
		}
		turnaround := e.phases[record.PhaseTurnaround].Mean
		if known := e.floor + turnaround; known < mean && e.floor > 0 && turnaround > 0 {
			b.Parts = append(b.Parts,
				Part{Name: "medium", Mean: e.floor,
					Help: "the floor: a round trip of the bare medium"},
				Part{Name: "far turnaround", Mean: turnaround,
					Help: "the other rank's daemon, from its poll to its doorbell"})
			mean -= known
			name = "transport"
		}
		b.Parts = append(b.Parts, Part{Name: name, Mean: mean, Help: transportHelp(name)})
	}
	return finish(b, "the mean minus the stages, which are sampled separately"), true
}

var stageHelp = map[string]string{
	record.StageNames[0]: "until the daemon of the client's rank polls it",
	record.StageNames[1]: "until the doorbell to the other rank",
	record.StageNames[3]: "until the client polls the response",
}

func transportHelp(name string) string {
	if name == "transport" {
		return "the rest: the transport, and waiting to be polled"
	}
	return "until the response is polled: both directions, and the other rank's daemon"
}

// call splits the service time of an operation into the stages that were taken of a sample of the
// calls. Half of the medium's round trip is drawn inside each of the two transfers.
func (e *measurements) call() (Breakdown, bool) {
	d := e.direct
	if d == nil {
		return Breakdown{}, false
	}
	b := Breakdown{Name: operationName,
		Title: "an operation, from its client's call to the response", Whole: d.Whole.Mean}
	for i, name := range d.Names {
		mean := d.Spreads[i].Mean
		if name == record.StageRequest || name == record.StageResponse {
			if medium := min(e.floor/2, mean); medium > 0 {
				b.Parts = append(b.Parts, Part{Name: "medium", Inside: name, Mean: medium,
					Help: "half of the floor, which is a round trip of the bare medium"})
				mean -= medium
			}
		}
		help := callHelp[name]
		if e.cfg.Idle == config.IdlePark &&
			(name == record.StageRequest || name == record.StageResponse) {
			help = strings.Replace(help, "waiting", "waiting for a wake-up and", 1)
		}
		b.Parts = append(b.Parts, Part{Name: name, Mean: mean, Help: help})
	}
	if d.Held > 0 {
		b.Parts = append(b.Parts, Part{Name: "stalls", Mean: d.Held,
			Help: "what slow calls add, because a thread stalled or woke late"})
	}
	if d.Halves != "" {
		b.Note = "request and response are halves of what the daemon leaves of a call, because " +
			"they cannot be told apart: " + d.Halves
	} else {
		b.Note = fmt.Sprintf(
			"taken of %s of %s calls; taking it cost such a call %s, which is subtracted",
			counted(float64(d.Spreads[0].Samples)), counted(float64(d.Whole.Samples)),
			format.Time(d.Cost))
		if d.Slowed > 0 {
			b.Note += fmt.Sprintf(
				"; it still took %s longer than others, by which the parts are reduced",
				percent(d.Slowed))
		}
		if d.Held > 0 {
			b.Note += "; the stages are of calls of up to " + format.Time(d.HeldLimit) +
				", and stalls what slower ones add"
		}
	}
	return finish(b, "the exact mean of all operations minus the stages"), true
}

var callHelp = map[string]string{
	record.StageClient:   "the client, from the poll that freed the call to its post",
	record.StageRequest:  "the transport, and waiting for the daemon's poll",
	record.StageServe:    "the daemon, from its poll to the reply",
	record.StageFlush:    "the daemon, until the reply is posted",
	record.StageResponse: "the transport, and waiting for the client's poll",
	record.StageReturn:   "waiting while the client handled other responses",
}

// operation splits the service time of an operation of which no stages were taken.
func (e *measurements) operation() (Breakdown, bool) {
	turnaround := e.phases[record.PhaseTurnaround].Mean
	if e.stages != nil || e.direct != nil || e.floor == 0 || turnaround == 0 {
		return Breakdown{}, false
	}
	b := Breakdown{Name: operationName,
		Title: "an operation, from its client's call to the response", Whole: e.meanLatency()}
	if e.floor+turnaround > b.Whole {
		return Breakdown{}, false
	}
	b.Parts = []Part{
		{Name: "medium", Mean: e.floor, Help: "the floor: a round trip of the bare medium"},
		{Name: "turnaround", Mean: turnaround, Help: "the daemon, from its poll to its doorbell"},
	}
	help := "the transport, and waiting to be polled"
	if e.cfg.InFlight > 1 && !e.open() {
		help += fmt.Sprintf(" behind %s", format.Count(e.cfg.InFlight-1, "other call"))
	}
	return finish(b, help), true
}

// loop splits an iteration of the daemons' loop into its phases.
func (e *measurements) loop() (Breakdown, bool) {
	whole := e.phases[record.PhaseLoop]
	if whole.Samples == 0 {
		return Breakdown{}, false
	}
	b := Breakdown{Name: loopName, Whole: whole.Mean,
		Title: fmt.Sprintf("an iteration of a daemon's loop; %s of %s found nothing",
			percent(e.emptyLoops/e.loops), counted(e.loops))}
	for _, name := range record.PhaseNames {
		if p, timed := e.phases[name]; timed {
			b.Parts = append(b.Parts, Part{Name: name, Mean: p.Mean, Help: phaseHelp[name]})
		}
	}
	return finish(b, "the rest of the iteration"), true
}

var phaseHelp = map[string]string{
	"poll":     "taking messages of peers out of the transport",
	"serve":    "answering requests from the store, forwarding responses",
	"scan":     "checking the links of the rank's own clients",
	"delegate": "serving requests of the rank's other daemons, and passing on their responses",
	"flush":    "posting messages and ringing the doorbell",
}

// processor splits the processor time of an operation.
func (e *measurements) processor() (Breakdown, bool) {
	if e.clientCPU == 0 || e.daemonCPU == 0 {
		return Breakdown{}, false
	}
	client, daemon := e.clientCPU/e.ops, e.daemonCPU/e.ops
	b := Breakdown{Name: processorName, Title: "processor time of an operation, including spinning",
		Whole: client + daemon}
	harness := min(e.clientHarness(), client)
	if e.clientBusy == 0 || e.daemonBusy == 0 {
		b.Parts = []Part{
			{Name: "benchmark overhead", Mean: harness,
				Help: "a client's loop against a transport that completes at once"},
			{Name: "clients", Mean: client - harness,
				Help: "the rest of the clients' threads: the transport, and spinning"},
			{Name: "daemons", Mean: daemon, Help: "the daemons' threads"},
		}
		return finish(b, "the rest"), true
	}
	// Iterations are timed by the clock, so a busy one may have lost its processor.
	clientBusy, daemonBusy := min(e.clientBusy/e.ops, client), min(e.daemonBusy/e.ops, daemon)
	harness = min(harness, clientBusy)
	helpers := max(0, e.processCPU/e.ops-b.Whole)
	b.Whole += helpers
	b.Parts = []Part{
		{Name: "benchmark overhead", Mean: harness,
			Help: "a client's loop against a transport that completes at once"},
		{Name: "clients", Mean: clientBusy - harness,
			Help: "the rest of the clients' iterations that found work"},
		{Name: "daemons", Mean: daemonBusy, Help: "the daemons' iterations that found work"},
		{Name: "client spinning", Mean: client - clientBusy,
			Help: "the clients' iterations that found nothing"},
		{Name: "daemon spinning", Mean: daemon - daemonBusy,
			Help: "the daemons' iterations that found nothing"},
		{Name: "helpers", Mean: helpers, Help: "other threads of the processes"},
	}
	if e.cfg.Scheduled() {
		b.Note = "a client of an open loop spins until its next operation is due, which is the " +
			"load generator's time and not the transport's"
	}
	return finish(b, "the rest"), true
}

// counted formats a count with three digits.
func counted(n float64) string {
	if n < 1000 {
		return fmt.Sprintf("%.0f", n)
	}
	return format.Magnitude(n)
}

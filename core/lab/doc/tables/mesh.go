package tables

import (
	"transportbench/core/base/record"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// maxRanks bounds the rows of a table. The result has all ranks.
const maxRanks = 8

// mesh writes what the daemons of a mesh did, and the parts of a remote
// request's service time.
func mesh(out *doc.Doc, r *result.Result) {
	if !r.Config.Mesh() {
		return
	}
	if list, err := result.RankLoopsOf(r.Repeats); err == nil && len(list) > 0 {
		loopEvents(out, list, maxRanks)
	}
	phases(out, r.Repeats)
	stages(out, r.Repeats)
}

// quotient returns a dash if by is 0.
func quotient(n, by uint64) string {
	if by == 0 {
		return "-"
	}
	return format.Digits(float64(n) / float64(by))
}

// phases writes the time of each phase of the loop.
func phases(out *doc.Doc, repeats []result.Repeat) {
	of, err := result.PhasesOf(repeats)
	whole := of[record.PhaseLoop]
	if err != nil || whole.Samples == 0 {
		return // a check reports it
	}
	t := doc.NewTable("phase of a loop", ">mean", ">p50", ">p90", ">p99", ">max", ">share")
	row := func(name string) {
		s, timed := of[name]
		if !timed {
			return
		}
		share := doc.None()
		if name != record.PhaseTurnaround {
			share = doc.Part(s.Mean / whole.Mean)
		}
		t.Row(name, doc.Time(s.Mean), doc.Time(s.P50), doc.Time(s.P90), doc.Time(s.P99),
			doc.Time(s.Max), share)
	}
	for _, name := range record.PhaseNames {
		row(name)
	}
	row(record.PhaseLoop)
	row(record.PhaseTurnaround)
	out.Add(t)
	out.Gap()
}

// stageHelp says when each stage ends.
var stageHelp = map[string]string{
	record.StageNames[0]: "until the daemon polls the call",
	record.StageNames[1]: "until its doorbell has rung",
	record.StageNames[2]: "until the response is polled",
	record.StageNames[3]: "until the client polls it",

	record.StageClient:   "the client, until the request is posted",
	record.StageRequest:  "until the daemon polls it",
	record.StageServe:    "until the daemon has the reply",
	record.StageFlush:    "until the reply is posted",
	record.StageResponse: "until the client polls it",
	record.StageReturn:   "of this, the client handled other responses",
}

// stages writes the parts of a remote request's service time.
func stages(out *doc.Doc, repeats []result.Repeat) {
	s, err := result.StagesOf(repeats)
	if err != nil || s == nil {
		return // a check reports it
	}
	title := "stage of a remote request"
	if s.Direct {
		title = "stage of a call"
	}
	t := doc.NewTable(title, ">mean", ">p50", ">p99", ">share", "").Wrap(20, "")
	for i, name := range s.Names {
		part := s.Spreads[i]
		t.Row(name, doc.Time(part.Mean), doc.Time(part.P50), doc.Time(part.P99),
			doc.Part(part.Mean/s.Whole.Mean), stageHelp[name])
	}
	if s.Held > 0 {
		t.Row("stalls", doc.Time(s.Held), "", "", doc.Part(s.Held/s.Whole.Mean),
			"what calls of over "+format.Time(s.HeldLimit)+" add")
	}
	rest := (1 - s.Explained()) * s.Ordinary()
	t.Row("unexplained", doc.Time(rest), "", "", doc.Part(rest/s.Whole.Mean),
		"the mean minus the stages' means")
	t.Row("whole", doc.Time(s.Whole.Mean), doc.Time(s.Whole.P50), doc.Time(s.Whole.P99),
		doc.Part(1), "service time")
	out.Add(t)
	out.Gap()
}

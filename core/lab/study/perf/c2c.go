package perf

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Sharing is what perf c2c saw of cache lines that move between processors.
type Sharing struct {
	Figures []Figure `json:"figures"`
	// SortedOn is what makes a line count as shared: "Total HITMs", or "Peer Snoop" on processors
	// that do not tell modified lines apart.
	SortedOn string `json:"sorted_on"`
	Lines    []Line `json:"lines"` // those with most first
}

// Figure is one of perf's sums over all samples.
type Figure struct {
	Name    string  `json:"name"` // perf's
	Value   float64 `json:"value"`
	Percent bool    `json:"percent,omitempty"`
	// OnShared means that only accesses to shared lines count.
	OnShared bool `json:"on_shared_lines,omitempty"`
}

// Figure returns a figure by perf's name.
func (s *Sharing) Figure(name string) (f Figure, ok bool) {
	i := slices.IndexFunc(s.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return f, false
	}
	return s.Figures[i], true
}

// Line is a cache line that processors pass to each other. Its counts are of samples.
type Line struct {
	Address string  `json:"address"` // in the process that perf saw first
	Percent float64 `json:"percent"` // of the loads that count as shared
	Local   uint64  `json:"local"`   // loads answered from a cache of the same node
	Remote  uint64  `json:"remote"`  // of another one
	Records uint64  `json:"records"`
	Loads   uint64  `json:"loads"`
	Stores  uint64  `json:"stores"`
	// Accesses are those of each thread, field of the line and function, those with most first.
	Accesses []Access `json:"accesses"`
}

// Access is what one function on one thread did to one field of a line. perf prints its counts as
// shares of the line's with two decimals, so those of lines with more than 5,000 samples are
// approximate.
type Access struct {
	Thread
	Offset string `json:"offset"` // in the line, hexadecimal
	Symbol string `json:"symbol"`
	Object string `json:"object"`
	Local  uint64 `json:"local"`
	Remote uint64 `json:"remote"`
	Stores uint64 `json:"stores"`
}

// The titles of the sections that perf c2c report --stdio prints, each between two rules.
const (
	titleEvents  = "Trace Event Information"
	titleShared  = "Global Shared Cache Line Event Information"
	titleDetails = "c2c details"
	titleLines   = "Shared Data Cache Line Table"
	titlePareto  = "Shared Cache Line Distribution Pareto"
)

// ParseC2C reads what perf c2c report --stdio --coalesce tid,iaddr prints.
func ParseC2C(text []byte) (*Sharing, error) {
	sections := map[string][]string{}
	title, rules := "", 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasSuffix(line, "=====") && strings.Trim(line, "=") == "":
			rules++
		case rules%2 == 1:
			title = strings.TrimSpace(line)
		case title != "":
			sections[title] = append(sections[title], line)
		}
	}
	for _, title := range []string{titleEvents, titleShared, titleLines, titlePareto} {
		if sections[title] == nil {
			return nil, fmt.Errorf("perf c2c report printed no %q", title)
		}
	}
	s := &Sharing{Figures: append(figures(sections[titleEvents], false),
		figures(sections[titleShared], true)...)}
	for _, line := range sections[titleDetails] {
		if name, value, found := strings.Cut(line, ":"); found &&
			strings.TrimSpace(name) == "Cachelines sort on" {
			s.SortedOn = strings.TrimSpace(value)
		}
	}
	var err error
	if s.Lines, err = parseLines(sections[titleLines]); err != nil {
		return nil, err
	}
	return s, s.addAccesses(sections[titlePareto])
}

var figureLine = regexp.MustCompile(`^  (\S.*?)\s*:\s+(\d[\d.]*)(%?)$`)

// figures reads lines with a name and a value. It leaves out shares of nothing, which perf prints
// as -nan%.
func figures(lines []string, onShared bool) (list []Figure) {
	for _, line := range lines {
		found := figureLine.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		if value, err := strconv.ParseFloat(found[2], 64); err == nil {
			list = append(list, Figure{Name: found[1], Value: value, Percent: found[3] != "",
				OnShared: onShared})
		}
	}
	return list
}

// parseLines reads the table of shared lines. Below the names of its columns, a row of dots shows
// where each column is. Versions of perf have different columns.
func parseLines(text []string) (list []Line, err error) {
	ruler := slices.IndexFunc(text, func(line string) bool {
		return strings.HasPrefix(line, "# ..")
	})
	if ruler < 1 {
		return nil, fmt.Errorf("perf c2c report printed a %q without columns", titleLines)
	}
	names := columnNames(text[ruler-1], text[ruler])
	column := func(alternatives ...string) int {
		for _, name := range alternatives {
			if i := slices.Index(names, name); i >= 0 {
				return i
			}
		}
		err = cmp.Or(err, fmt.Errorf("perf c2c report printed no column %s; it has %s",
			strings.Join(alternatives, " or "), strings.Join(names, ", ")))
		return 0
	}
	address, percent := column("Address"), column("Hitm", "Snoop")
	records, loads, stores := column("records"), column("Loads"), column("Stores")
	// The share of the loads that count as shared is followed by their number, and by those from
	// caches of the same and of another node. Their names depend on the version and on what is
	// sorted on, and occur again further right.
	local, remote := percent+2, percent+3
	if err == nil && (remote >= len(names) || !slices.Contains([]string{"LclHitm", "Lcl", "Local"},
		names[local]) ||
		!slices.Contains([]string{"RmtHitm", "Rmt", "Remote"}, names[remote])) {
		err = fmt.Errorf("perf c2c report printed columns in an unknown order: %s",
			strings.Join(names, ", "))
	}
	if err != nil {
		return nil, err
	}
	for _, row := range text[ruler+1:] {
		fields := strings.Fields(row)
		if len(fields) == 0 || strings.HasPrefix(row, "#") {
			continue
		}
		if len(fields) != len(names) {
			return nil, fmt.Errorf("perf c2c report printed %q, which has %d columns and not %d",
				row, len(fields), len(names))
		}
		l := Line{Address: fields[address]}
		for at, value := range map[int]*uint64{local: &l.Local, remote: &l.Remote,
			records: &l.Records, loads: &l.Loads, stores: &l.Stores} {
			if *value, err = strconv.ParseUint(fields[at], 10, 64); err != nil {
				return nil, fmt.Errorf("perf c2c report printed %q: %s: %w", row, names[at], err)
			}
		}
		if l.Percent, err = parsePercent(fields[percent]); err != nil {
			return nil, fmt.Errorf("perf c2c report printed %q: %w", row, err)
		}
		list = append(list, l)
	}
	return list, nil
}

// columnNames returns what stands above each run of dots in ruler.
func columnNames(header, ruler string) (names []string) {
	for at := 0; at < len(ruler); {
		if ruler[at] != '.' {
			at++
			continue
		}
		end := at
		for end < len(ruler) && ruler[end] == '.' {
			end++
		}
		names = append(names, strings.TrimSpace(header[min(at, len(header)):min(end, len(header))]))
		at = end
	}
	return names
}

func parsePercent(text string) (float64, error) {
	return strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
}

// lineHeading is the row of a line in the Pareto table: its number, the counts of its remote and
// local loads and of each kind of stores, and its address.
var lineHeading = regexp.MustCompile(`^\s+(\d+)\s+((?:\d+\s+){3,})0x[0-9a-f]+\s*$`)

// accessLine is a row below that: the shares of these counts, offset, node, number of physical
// addresses, thread, code address, means and counts, and the symbol with its object. The columns of
// thread and symbol are as wide as each line needs, so the header of the table does not tell where
// they are.
var accessLine = regexp.MustCompile(
	`^\s+((?:[\d.]+%\s+){3,})(0x[0-9a-f]+)\s+\S+\s+\d+\s+(\d+):(.*?)\s+0x[0-9a-f]+\s+(?:\d+\s+)+\[.\]\s+(.*)$`)

var columnGap = regexp.MustCompile(`\s{2,}`)

// addAccesses reads the Pareto table, with the rows of the same thread, offset and function as one.
func (s *Sharing) addAccesses(text []string) error {
	var line *Line
	var totals []string
	for _, row := range text {
		if strings.HasPrefix(row, "#") || strings.Trim(row, " -") == "" {
			continue
		}
		if heading := lineHeading.FindStringSubmatch(row); heading != nil {
			n, err := strconv.Atoi(heading[1])
			if err != nil || n >= len(s.Lines) {
				return fmt.Errorf("perf c2c report printed %q, and its table has %d lines", row,
					len(s.Lines))
			}
			line, totals = &s.Lines[n], strings.Fields(heading[2])
			continue
		}
		found := accessLine.FindStringSubmatch(row)
		if found == nil || line == nil {
			return fmt.Errorf("perf c2c report printed %q, which is no access to a line", row)
		}
		counts, err := countsOf(strings.Fields(found[1]), totals)
		if err != nil {
			return fmt.Errorf("perf c2c report printed %q: %w", row, err)
		}
		tid, err := strconv.Atoi(found[3])
		if err != nil {
			return fmt.Errorf("perf c2c report printed %q: %w", row, err)
		}
		code := append(columnGap.Split(strings.TrimSpace(found[5]), 3), "")
		a := Access{Thread: newThread(found[4], tid), Offset: found[2], Symbol: code[0],
			Object: code[1], Remote: counts[0], Local: counts[1]}
		for _, stores := range counts[2:] {
			a.Stores += stores
		}
		line.add(a)
	}
	for i := range s.Lines {
		slices.SortStableFunc(s.Lines[i].Accesses, func(a, b Access) int {
			return cmp.Or(cmp.Compare(b.Local+b.Remote, a.Local+a.Remote),
				cmp.Compare(b.Stores, a.Stores))
		})
	}
	return nil
}

// countsOf returns the counts of which shares are the percentages of totals.
func countsOf(shares, totals []string) (counts []uint64, err error) {
	if len(shares) != len(totals) {
		return nil, fmt.Errorf("it has %d percentages for %d counts of the line", len(shares),
			len(totals))
	}
	for i := range shares {
		share, err := parsePercent(shares[i])
		if err != nil {
			return nil, err
		}
		total, err := strconv.ParseUint(totals[i], 10, 64)
		if err != nil {
			return nil, err
		}
		counts = append(counts, uint64(math.Round(share/100*float64(total))))
	}
	return counts, nil
}

// add adds an access, or its counts to those of the same thread, field and function.
func (l *Line) add(a Access) {
	same := slices.IndexFunc(l.Accesses, func(b Access) bool {
		return a.TID == b.TID && a.Offset == b.Offset && a.Symbol == b.Symbol &&
			a.Object == b.Object
	})
	if same < 0 {
		l.Accesses = append(l.Accesses, a)
		return
	}
	b := &l.Accesses[same]
	b.Local, b.Remote, b.Stores = b.Local+a.Local, b.Remote+a.Remote, b.Stores+a.Stores
}

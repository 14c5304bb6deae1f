package transporttest

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var infoClauses = []clause{
	{name: "info/names", run: infoNames,
		says: "Info has a name of lower-case letters and digits, a version, a summary and a " +
			"reason to choose it of one line each, groups and providers, the same each time."},
	{name: "info/options", run: infoOptions,
		says: "Every option has a name of words joined by hyphens, help, and a default that " +
			"parses; unknown names do not parse."},
	{name: "info/roles", run: infoRoles,
		says: "Every option that has a role exists and has the role's type, and the options of " +
			"Matched and PerPacket parse."},
	{name: "info/references", run: infoReferences,
		says: "Every reference has a tool and a reading. The host, or Properties.Reference, has " +
			"each placeholder of a reference for this medium and provider."},
	{name: "info/limits", run: infoLimits,
		says: "MaxPayload and Peers are positive, InlineSize is at most MaxPayload, and no limit " +
			"is negative."},
	{name: "info/touches-nothing", run: infoTouchesNothing, alone: true,
		says: "Info returns at once and touches no hardware, memory or sockets."},
}

var openClauses = []clause{
	{name: "open/twice", run: openTwice,
		says: "A driver opens several ranks in one process, and closing one does not affect the " +
			"others."},
	{name: "open/again", run: openAgain,
		says: "Close releases everything, so a driver can be opened any number of times."},
	{name: "open/properties", run: openProperties,
		says: "Properties have one of Info's providers, and limits that cover the configuration. " +
			"Limits.Peers is what the options allow, not Config.Peers."},
	{name: "open/chosen", run: openChosen,
		says: "Properties name what was taken for every option whose value is auto, and the " +
			"integrity checks."},
	{name: "open/capabilities", run: openCapabilities,
		says: "Info's capabilities hold with the default options, and a worker is a Waiter if " +
			"and only if Waits is declared, and a Recorder if Traces is."},
	{name: "open/worker-indices", run: openWorkerIndices,
		says: "NewWorker takes the indices 0 to Workers-1, each once, and makes a separate " +
			"worker for each."},
	{name: "open/address", run: openAddress,
		says: "Address is constant."},
}

var transportName = regexp.MustCompile(`^[a-z0-9]+$`)

// longestChoose is the longest reason to choose a transport, in bytes: lists show it beside its
// name.
const longestChoose = 100

func infoNames(t *trial) {
	info := t.suite.Driver.Info()
	require.Regexp(t, transportName, info.Name, "the name")
	require.NotEmpty(t, info.Version, "the version")
	require.NotEmpty(t, strings.TrimSpace(info.Summary), "the summary")
	require.NotContains(t, info.Summary, "\n", "the summary is one line")
	require.NotEmpty(t, strings.TrimSpace(info.Choose), "when to choose it")
	require.NotContains(t, info.Choose, "\n", "when to choose it, in one line")
	require.LessOrEqual(t, len(info.Choose), longestChoose, "when to choose it, in one line")
	require.NotEmpty(t, info.Groups, "the groups")
	require.Subset(t, transport.Groups(), info.Groups, "the groups")
	require.NotEmpty(t, info.Providers, "the providers")
	require.NotContains(t, info.Providers, "", "the providers")
	require.Equal(t, info, t.suite.Driver.Info(), "the second Info")
}

var optionName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func infoOptions(t *trial) {
	options := t.suite.Driver.Info().Options
	seen := map[string]bool{}
	for _, o := range options {
		require.Regexp(t, optionName, o.Name, "an option's name")
		require.False(t, seen[o.Name], "option %q is declared twice", o.Name)
		seen[o.Name] = true
		require.NotEmpty(t, strings.TrimSpace(o.Help), "the help of option %q", o.Name)
		require.LessOrEqual(t, o.Min, o.Max, "the bounds of option %q", o.Name)
	}
	_, err := transport.ParseOptions(options, nil)
	require.NoError(t, err, "parsing the defaults")
	_, err = transport.ParseOptions(options, t.suite.Options)
	require.NoError(t, err, "parsing Suite.Options")
	var wrong *transport.OptionError
	_, err = transport.ParseOptions(options, map[string]string{"no-such-option": ""})
	require.ErrorAs(t, err, &wrong, "parsing an unknown option")
}

func infoRoles(t *trial) {
	info := t.suite.Driver.Info()
	require.NoError(t, info.Roles.Check(info.Options), "Info.Roles")
	for what, options := range map[string]map[string]string{
		"Matched": info.Matched, "PerPacket": info.PerPacket,
	} {
		_, err := transport.ParseOptions(info.Options, options)
		require.NoError(t, err, "the options of Info.%s", what)
	}
}

// hostPlaceholders are those of references that the host fills in.
var hostPlaceholders = []string{"address", "port", "size", "messages", "in-flight", "provider",
	"streams"}

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

func infoReferences(t *trial) {
	var used []string
	p := &t.traits.properties
	for i := range t.traits.info.References {
		r := &t.traits.info.References[i]
		require.NoError(t, r.Check(), "Info.References")
		text := strings.Join(slices.Concat(r.Server, r.Client,
			slices.Collect(maps.Values(r.Environment))), " ")
		for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
			used = append(used, found[1])
			require.Regexp(t, optionName, found[1], "a placeholder of reference %s", r.Name)
			if r.Covers(p.Medium, p.Provider) && !slices.Contains(hostPlaceholders, found[1]) {
				require.Contains(t, p.Reference, found[1], "Properties.Reference lacks a "+
					"placeholder of reference %s; an empty value leaves the argument out", r.Name)
			}
		}
	}
	for name := range p.Reference {
		require.Contains(t, used, name, "a value of Properties.Reference that no reference uses")
		require.NotContains(t, hostPlaceholders, name, "a value that the host has")
	}
}

func infoLimits(t *trial) {
	for _, limits := range []transport.Limits{t.suite.Driver.Info().Limits,
		t.traits.properties.Limits} {
		require.Positive(t, limits.MaxPayload, "MaxPayload")
		require.Positive(t, limits.Peers, "Peers")
		require.GreaterOrEqual(t, limits.InFlight, 0, "InFlight")
		require.GreaterOrEqual(t, limits.InlineSize, 0, "InlineSize")
		require.LessOrEqual(t, limits.InlineSize, limits.MaxPayload, "InlineSize, of MaxPayload")
	}
}

func infoTouchesNothing(t *trial) {
	before := census(t)
	for range 100 {
		t.suite.Driver.Info()
	}
	before.compare(t)
}

func openTwice(t *trial) {
	c, center, others := t.star(min(3, t.traits.properties.Limits.Peers+1))
	for peer := range others {
		center.call(transport.PeerID(peer), pattern(1, 16))
	}
	c.drain()
	if len(others) > 1 {
		c.closeRank(1)
		center.call(1, pattern(2, 16))
		c.drain()
	}
}

// reopenings exceeds the size of any pool of rings, ports or names from which a transport could
// take without giving back.
const reopenings = 50

func openAgain(t *trial) {
	for range reopenings {
		c, a, _ := t.pair(layout{inFlight: 2, maxPayload: 64})
		a.call(0, pattern(1, min(64, c.layout.maxPayload)))
		c.drain()
		c.close()
	}
}

func openProperties(t *trial) {
	c := t.open(layout{})
	for _, r := range c.endpoints {
		p := r.Properties()
		require.Contains(t, t.traits.info.Providers, p.Provider, "Properties.Provider")
		require.GreaterOrEqual(t, p.Limits.MaxPayload, c.layout.maxPayload,
			"Limits.MaxPayload against Config.MaxPayload")
		require.GreaterOrEqual(t, p.Limits.Peers, c.layout.peers,
			"Limits.Peers against Config.Peers")
		if p.Limits.InFlight != 0 {
			require.GreaterOrEqual(t, p.Limits.InFlight, c.layout.inFlight,
				"Limits.InFlight against Config.InFlight")
		}
		require.Equal(t, p, r.Properties(), "the second Properties")
	}
	// The clauses that need several peers would not run.
	if l := c.layout; c.endpoints[0].Properties().Limits.Peers < t.traits.info.Limits.Peers {
		l.peers = c.endpoints[0].Properties().Limits.Peers + 1
		rank, err := t.openRank(len(c.endpoints), l)
		if err == nil {
			require.NoError(t, rank.Close())
		}
		require.Error(t, err, "Open with a peer more than Properties.Limits.Peers, which are what "+
			"the options allow, and not Config.Peers")
	}
}

func openChosen(t *trial) {
	p := t.traits.properties
	values, err := transport.ParseOptions(t.traits.info.Options, t.suite.Options)
	require.NoError(t, err, "parsing Suite.Options")
	inForce := values.Map()
	for option, taken := range p.Chosen {
		require.Contains(t, inForce, option, "an option in Properties.Chosen")
		require.NotContains(t, []string{"", "auto"}, taken, "Properties.Chosen of option %q",
			option)
	}
	for option, value := range inForce {
		if value == "auto" {
			require.Contains(t, p.Chosen, option, "Properties.Chosen, of an option that is auto")
		}
	}
	require.NotEmpty(t, p.Integrity, "Properties.Integrity")
}

func openCapabilities(t *trial) {
	properties := t.traits.properties
	if len(t.suite.Options) == 0 && len(t.traits.info.Providers) == 1 {
		require.Equal(t, t.traits.info.Capabilities, properties.Capabilities,
			"Properties.Capabilities against Info's, under the default options")
	}
	require.Equal(t, t.traits.info.Capabilities.Goroutines, properties.Capabilities.Goroutines,
		"Properties.Capabilities.Goroutines against Info's, under any options")
	require.Equal(t, properties.Capabilities.Waits, t.traits.waiter,
		"Capabilities.Waits against whether the worker implements Waiter")
	if properties.Capabilities.Traces {
		require.True(t, t.traits.recorder,
			"Capabilities.Traces is declared, and the worker does not implement Recorder")
	}
}

func openWorkerIndices(t *trial) {
	peers := min(3, t.traits.properties.Limits.Peers)
	l := layout{ranks: 2, workers: 3, peers: peers}.complete(t)
	c := &cluster{trial: t, layout: l}
	t.Cleanup(c.close)
	for r := range l.ranks {
		opened, err := t.openRank(r, l)
		require.NoError(t, err, "Open")
		c.endpoints = append(c.endpoints, &endpoint{Transport: opened})
		for _, index := range []int{2, 0, 1} { // in any order
			c.nodes = append(c.nodes, c.newNode(r, index))
		}
	}
	for i, n := range c.nodes {
		for _, other := range c.nodes[:i] {
			require.NotEqual(t, other.worker.Address(), n.worker.Address(),
				"the addresses of two workers")
		}
	}
	for i := range l.workers {
		c.join(c.nodes[i], c.nodes[l.workers+i])
		c.nodes[i].call(0, pattern(uint64(i), 16))
	}
	c.drain()
}

func openAddress(t *trial) {
	c := t.open(layout{})
	a, b := c.nodes[0], c.nodes[1]
	before := string(a.worker.Address())
	require.NotEmpty(t, before, "the address")
	require.Equal(t, before, string(a.worker.Address()), "the address asked for again")
	c.join(a, b)
	require.Equal(t, before, string(a.worker.Address()), "the address after Connect")
	a.call(0, pattern(1, 16))
	c.drain()
	require.Equal(t, before, string(a.worker.Address()), "the address after a call")
}

package options

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/transport"
)

// The keys that are not part of a run's configuration. Each is a flag, a
// variable and, except KeyConfig, a key of the configuration file.
const (
	KeyTransport  = "transport"
	keyClass      = "class"
	keyProfile    = "profile"
	KeySet        = "set"
	KeyOut        = "out"
	KeyJSON       = "json"
	KeyConfig     = "config"
	KeyPluginDir  = "plugin-dir"
	KeyAllowMixed = "allow-mixed-runtime"
	KeyVerbose    = "verbose"
	KeyQuiet      = "quiet"

	KeyStartTimeout = "start-timeout"
	KeyWitness      = "witness"

	KeyListen       = "listen"
	KeyAgents       = "agents"
	KeyJoinTimeout  = "join-timeout"
	KeyHostTimeout  = "host-timeout"
	KeyRanksPerHost = "ranks-per-host"
	KeyMap          = "map"
	KeyShareMachine = "share-machine"

	KeyHosts         = "hosts"
	KeyHostfile      = "hostfile"
	KeyLaunch        = "launch"
	KeyRemoteCommand = "remote-command"
	KeySecret        = "secret"
)

// DefaultOut is the default directory for results.
const DefaultOut = "results/local"

// maxHosts bounds the hosts of a run, and the ranks of each.
const maxHosts = 4096

// settings has the keys that are not part of a run's configuration.
var settings = []config.Field{
	{Option: transport.Option{Name: KeyTransport, Type: transport.TypeString,
		Help: "transport to run: a name, a comma list, or all that can run here"}},
	{Option: transport.Option{Name: KeySet, Type: transport.TypeString,
		Help: "option of the transport itself, repeatable; see plugins show NAME"},
		Form: "key=value"},
	{Option: transport.Option{Name: KeyOut, Type: transport.TypeString, Default: DefaultOut,
		Help: "directory for results"}},
	{Option: transport.Option{Name: KeyJSON, Type: transport.TypeBool, Default: "false",
		Help: "write only JSON to standard output"}},
	{Option: transport.Option{Name: KeyConfig, Type: transport.TypeString,
		Help: "configuration file: YAML, TOML or JSON"}, Form: "file"},
	{Option: transport.Option{Name: KeyPluginDir, Type: transport.TypeString,
		Help: "directory to search first for plugins"}},
	{Option: transport.Option{Name: KeyAllowMixed, Type: transport.TypeBool, Default: "false",
		Help: "run plugins built from another version of the runtime"}},
	{Option: transport.Option{Name: KeyStartTimeout, Type: transport.TypeDuration, Default: "10s",
		Help: "time for a rank to start, to prepare and to connect, each; large configurations " +
			"add to it", Min: int64(100 * time.Millisecond), Max: int64(time.Hour)}},
	{Option: transport.Option{Name: KeyWitness, Type: transport.TypeBool, Default: "false",
		Help: "run the field's own benchmark before and after each window: ucx_perftest, " +
			"fi_pingpong, ib_write_lat, sockperf, iperf3"}},
	{Option: transport.Option{Name: KeyHosts, Type: transport.TypeString,
		Help: "run the ranks on these hosts, through ssh: a,user@b"}, Form: "hosts"},
	{Option: transport.Option{Name: KeyHostfile, Type: transport.TypeString,
		Help: "run the ranks on the hosts in this file, through ssh; one in each line"},
		Form: "file"},
	{Option: transport.Option{Name: KeyLaunch, Type: transport.TypeString,
		Help: "run the ranks on the hosts on which this command starts agents: \"srun -N2 " +
			"--ntasks-per-node=1\""}, Form: "command"},
	{Option: transport.Option{Name: KeyRemoteCommand, Type: transport.TypeString,
		Help: "how the other hosts call transportbench, if not by the path that it has here"},
		Form: "command"},
	{Option: transport.Option{Name: KeySecret, Type: transport.TypeString,
		Help: "file that all hosts of --launch share, without which the ticket that the engine " +
			"carries is worth nothing; none sends a ticket that anybody can use"}, Form: "file"},
	{Option: transport.Option{Name: KeyListen, Type: transport.TypeString,
		Help: "run the ranks on other hosts: wait on HOST:PORT or :PORT for their agents"},
		Form: "address"},
	{Option: transport.Option{Name: KeyAgents, Type: transport.TypeInt, Default: "0",
		Help: "number of agents to wait for", Max: maxHosts}},
	{Option: transport.Option{Name: KeyJoinTimeout, Type: transport.TypeDuration, Default: "0s",
		Help: "how long to wait for all agents; 0 waits for as long as the engine runs",
		Max:  int64(30 * 24 * time.Hour)}},
	{Option: transport.Option{Name: KeyHostTimeout, Type: transport.TypeDuration, Default: "10s",
		Help: "a host that is silent for so long is lost, and the run ends; a cut of half of it " +
			"is not", Min: int64(hosts.MinTimeout), Max: int64(hosts.MaxTimeout)}},
	{Option: transport.Option{Name: KeyRanksPerHost, Type: transport.TypeInt, Default: "0",
		Help: "ranks on each host, the first hosts first; by default they are dealt out in turn",
		Max:  maxHosts}},
	{Option: transport.Option{Name: KeyMap, Type: transport.TypeString,
		Help: "host of each rank, by name or number: h0,h0,h1; a host's own options of the " +
			"transport may follow it: \"h0 device=mlx5_0,h1 device=mlx5_2\""}, Form: "hosts"},
	{Option: transport.Option{Name: KeyShareMachine, Type: transport.TypeBool, Default: "false",
		Help: "allow several agents on one machine"}},
	{Option: transport.Option{Name: KeyVerbose, Type: transport.TypeBool, Default: "false",
		Help: "show all tables and notes, and the whole chain of an error"}},
	{Option: transport.Option{Name: KeyQuiet, Type: transport.TypeBool, Default: "false",
		Help: "only results and errors: no progress, notes and warnings"}},
}

// AddCommon adds the flags that every command has.
func AddCommon(flags *pflag.FlagSet) {
	addSettings(flags, KeyConfig, KeyPluginDir, KeyVerbose, KeyQuiet)
}

// AddJSON adds --json.
func AddJSON(flags *pflag.FlagSet) { addSettings(flags, KeyJSON) }

// AddOut adds --out, which is initial by default.
func AddOut(flags *pflag.FlagSet, initial string) {
	addSettings(flags, KeyOut)
	flags.Lookup(KeyOut).DefValue = initial
}

// AddHosts adds the flags of a command that starts agents on other hosts.
func AddHosts(flags *pflag.FlagSet) {
	addSettings(flags, KeyHosts, KeyHostfile, KeyLaunch, KeyRemoteCommand, KeySecret, KeyListen,
		KeyAgents, KeyJoinTimeout, KeyHostTimeout, KeyShareMachine)
}

// AddRun adds the flags of a command that runs transports, except leaveOut,
// which the command sets itself. defaults are the command's own, by key. The
// flags also accept the names that a sweep file uses.
func AddRun(flags *pflag.FlagSet, defaults map[string]string, leaveOut ...string) {
	addSettings(flags, KeyTransport, KeySet, KeyOut, KeyAllowMixed, KeyStartTimeout, KeyWitness,
		KeyRanksPerHost, KeyMap)
	AddHosts(flags)
	for _, f := range config.Fields() {
		if !slices.Contains(leaveOut, f.Name) {
			addText(flags, f.Name, f.Form, f.Default, f.Help)
		}
	}
	if f := flags.Lookup(keyClass); f != nil {
		f.Value.(*textValue).separator = ";"
	}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(config.Canonical(name, ""))
	})
	flags.Lookup(KeyTransport).DefValue = config.Default().Transport
	for key, value := range defaults {
		flags.Lookup(key).DefValue = value
	}
}

// AddMicro adds the flags of a command that runs a transport's
// microbenchmarks, by default for duration each.
func AddMicro(flags *pflag.FlagSet, duration string) {
	addSettings(flags, KeySet, KeyJSON, KeyOut)
	flags.Lookup(KeyOut).DefValue = ""
	flags.Lookup(KeyOut).Usage = "directory for the readings, which diff and report read"
	addText(flags, "duration", "duration", duration, "time of one measurement")
	addText(flags, "repeats", "int", "1", "times to take each measurement, each in a process of "+
		"its own; fewer than 6 give no 95% interval")
}

func addSettings(flags *pflag.FlagSet, names ...string) {
	for _, s := range settings {
		switch {
		case !slices.Contains(names, s.Name):
		case s.Name == KeySet:
			flags.Var(&listValue{}, s.Name, s.Help)
		default:
			addText(flags, s.Name, cmp.Or(s.Form, string(s.Type)), s.Default, s.Help)
		}
	}
}

// addText adds a flag that keeps its text. [Resolve] reads it, so flags,
// variables and files share one parser and one message.
func addText(flags *pflag.FlagSet, name, kind, initial, help string) {
	shorthand := map[string]string{KeyVerbose: "v", KeyQuiet: "q"}[name]
	flag := flags.VarPF(&textValue{kind: kind}, name, shorthand, help)
	flag.DefValue = initial
	if kind == string(transport.TypeBool) {
		flag.NoOptDefVal = "true"
	}
}

// textValue is a flag's value before it is read.
type textValue struct {
	kind, text string
	separator  string // of a repeatable flag
}

func (v *textValue) String() string   { return v.text }
func (v *textValue) Type() string     { return v.kind }
func (v *textValue) IsBoolFlag() bool { return v.kind == string(transport.TypeBool) }

// Set replaces the text, or adds to that of a repeatable flag.
func (v *textValue) Set(text string) error {
	if v.separator != "" && v.text != "" {
		text = v.text + v.separator + text
	}
	v.text = text
	return nil
}

// listValue is the value of a repeatable flag.
type listValue struct{ items []string }

func (v *listValue) String() string        { return strings.Join(v.items, ",") }
func (v *listValue) Type() string          { return "key=value" }
func (v *listValue) Set(text string) error { v.items = append(v.items, text); return nil }

// keys returns all settings and options.
func keys() []string {
	all := config.Names()
	for _, s := range settings {
		all = append(all, s.Name)
	}
	return all
}

// SetItems returns the values of --set as they were given.
func SetItems(flags *pflag.FlagSet) []string {
	if f := flags.Lookup(KeySet); f != nil {
		return f.Value.(*listValue).items
	}
	return nil
}

// SplitList splits a list of values of transports' own options, which may have semicolons, at its
// commas. Those of a value are written \,.
func SplitList(text string) []string {
	const comma = "\x00" // no argument and no variable contains it
	items := strings.Split(strings.ReplaceAll(text, `\,`, comma), ",")
	for i := range items {
		items[i] = strings.ReplaceAll(items[i], comma, ",")
	}
	return items
}

// WithoutRun returns the flags that do not say what is measured, for a command
// that reads the others itself.
func WithoutRun(flags *pflag.FlagSet) *pflag.FlagSet {
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != KeyTransport && f.Name != KeySet && !config.IsOption(f.Name) {
			rest.AddFlag(f)
		}
	})
	return rest
}

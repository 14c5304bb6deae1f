package host

import (
	"context"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// goPluginName is the name of go-plugin's own log. A plugin's log has its file name appended.
const goPluginName = "go-plugin"

// newHCLogger returns a logger for go-plugin that writes to logger.
func newHCLogger(logger *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: goPluginName, Output: io.Discard,
		Level: hclog.Debug})
	l.RegisterSink(slogSink{logger})
	return l
}

type slogSink struct{ logger *slog.Logger }

// Accept implements [hclog.SinkAdapter].
func (s slogSink) Accept(name string, level hclog.Level, message string, args ...any) {
	to := slogLevel(level)
	if name == goPluginName || name == goPluginName+".stdio" {
		// go-plugin logs every end of a plugin as an error, even an expected one.
		to = slog.LevelDebug
	}
	s.logger.Log(context.Background(), to, message, args...)
}

func slogLevel(level hclog.Level) slog.Level {
	// slog leaves 4 between levels
	return max(slog.LevelDebug, slog.LevelInfo+4*slog.Level(level-hclog.Info))
}

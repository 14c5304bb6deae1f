package host

import (
	"context"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// goPluginName is the name under which go-plugin itself logs; what a plugin
// says has the plugin's file name behind it.
const goPluginName = "go-plugin"

// newHCLogger gives go-plugin a logger that writes to logger.
func newHCLogger(logger *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: goPluginName, Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(slogSink{logger})
	return l
}

type slogSink struct{ logger *slog.Logger }

// Accept implements [hclog.SinkAdapter].
func (s slogSink) Accept(name string, level hclog.Level, message string, args ...any) {
	to := slogLevel(level)
	if name == goPluginName || name == goPluginName+".stdio" {
		// It calls every plugin that ends an error, also where that is wanted.
		to = slog.LevelDebug
	}
	s.logger.Log(context.Background(), to, message, args...)
}

func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Info:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

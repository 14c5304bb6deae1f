// Package inspect has the commands that read results and measure nothing.
package inspect

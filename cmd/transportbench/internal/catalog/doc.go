// Package catalog finds the installed plugins of transports and asks what they are.
package catalog

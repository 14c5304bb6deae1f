// Command transport-ofi is the plugin of the transport over libfabric.
package main

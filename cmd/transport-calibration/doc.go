// Command transport-calibration is the plugin of the transport with a known cost.
package main

// Package control takes the movement of a machine from the changes of transports between two sets,
// or through many: arithmetic only, on logarithms.
//
// The design is difference in differences with a control group. The transports that a change did
// not touch show how the machine moved, and what is left of the others' change is their own. The
// control group is the other transports under the same load, and their median is robust against a
// few that changed, too.
//
// Transports do not follow a machine equally: what is left of them scatters even if none changed.
// Its standard deviation tau is estimated from the comparison itself, by the moment estimator of
// DerSimonian and Laird (Meta-analysis in clinical trials, 1986) with a mean that is known to be
// zero. A change is then judged by the prediction interval of a new effect (Higgins, Thompson and
// Spiegelhalter, A re-evaluation of random-effects meta-analysis, 2009).
package control

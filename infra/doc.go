// Command infra describes an installation in AWS: the CDK app behind
// `make deploy`. It reads the declarations of operations (functions.Groups) and
// of triggered functions (functions.Triggered) and derives a function, a role,
// routes, schedules, alarms, widgets and a release from each: what is added there
// appears here without a line of its own.
//
// It holds no account id, no address and no secret: what differs between
// installations comes from the stage's file and the context (settings.go declares
// their words, words.go and stages.go read them). It is written mostly in
// CloudFormation's own resources, so that what a template holds can be read off
// these files, and no helper function of the CDK is deployed.
//
// Read main.go, then installation.go, which calls the other files in order; package
// deploy is what `make deploy` runs, with package removals, which has it stop.
// The rules are those of design, sections 2 and 9, and docs/scaling.md.
package main

// Command infra describes an installation in AWS: the CDK app behind `make deploy`. It reads the declarations of
// operations (functions.Groups) and of triggered functions (functions.Triggered). From each declaration it derives a
// function, a role, routes, schedules, alarms, widgets and a release. A new declaration needs no new code here.
//
// It contains no account id, no address and no secret. The differences between installations come from the stage's file
// and the context: settings.go declares the settings, and settingdefs.go and stages.go read them. It mostly uses the
// CDK's L1 constructs, which correspond to CloudFormation resources one to one. So these files show what a template
// contains, and the CDK deploys no helper functions of its own.
//
// Read main.go, then installation.go, which calls the other files in order. `make deploy` runs package deploy, which
// stops a deployment if package removals finds a loss that the operator has not allowed. The rules are in the design,
// sections 2 and 9, and in docs/scaling.md.
package main

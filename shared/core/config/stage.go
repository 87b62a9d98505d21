package config

import "regexp"

// StagePattern matches a stage, which is the name of an installation in AWS. The names of its resources contain the
// stage, as in "gatewright-dev" for the stage dev. StageDescription describes the pattern in error messages.
const (
	StagePattern     = `^[a-z][a-z0-9-]{0,15}$`
	StageDescription = "has 1 to 16 lower-case letters, digits and hyphens and begins with a letter"
)

// IsStage reports whether a text can be the name of an installation in AWS.
func IsStage(name string) bool { return regexp.MustCompile(StagePattern).MatchString(name) }

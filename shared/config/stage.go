package config

import "regexp"

// StagePattern is what the name of an installation in AWS is: it begins the names of all that it has. StageIs says so to who has written
// another one.
const (
	StagePattern = `^[a-z][a-z0-9-]{0,15}$`
	StageIs      = "has 1 to 16 lower-case letters, digits and hyphens and begins with a letter"
)

// IsStage reports whether a text can be the name of an installation in AWS.
func IsStage(name string) bool { return regexp.MustCompile(StagePattern).MatchString(name) }

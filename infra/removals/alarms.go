package removals

import "fmt"

// StageFile returns the digest of the stage's file from which a stack was made. It is "" if the release that deployed the stack recorded none.
func (s Stack) StageFile() string {
	digest, is := s.Templates[""].Metadata[StageFileKey]
	if !is {
		return ""
	}
	return fmt.Sprint(digest)
}

// StageFileKey is the name of the digest in the metadata of a stack's template.
const StageFileKey = "gatewright:stage-file"

// Alarms returns how many alarms a stack has, and how many of them notify somebody.
func (s Stack) Alarms() (all, heard int) {
	for _, t := range s.Templates {
		for _, r := range t.Resources {
			if r.Type != "AWS::CloudWatch::Alarm" {
				continue
			}
			all++
			if actions, _ := r.Properties["AlarmActions"].([]any); len(actions) > 0 {
				heard++
			}
		}
	}
	return all, heard
}

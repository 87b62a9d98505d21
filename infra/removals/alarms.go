package removals

import "fmt"

// StageFileDigest returns the digest of the stage's file from which a stack was synthesized. It is "" if the release
// that deployed the stack did not record a digest.
func (s Stack) StageFileDigest() string {
	digest, ok := s.Templates[""].Metadata[StageFileKey]
	if !ok {
		return ""
	}
	return fmt.Sprint(digest)
}

// StageFileKey is the key of the digest of the stage's file in the metadata of a stack's template.
const StageFileKey = "gatewright:stage-file"

// CountAlarms returns the number of alarms of a stack, and the number of those that notify somebody.
func (s Stack) CountAlarms() (total, notifying int) {
	for _, t := range s.Templates {
		for _, r := range t.Resources {
			if r.Type != "AWS::CloudWatch::Alarm" {
				continue
			}
			total++
			if actions, _ := r.Properties["AlarmActions"].([]any); len(actions) > 0 {
				notifying++
			}
		}
	}
	return total, notifying
}

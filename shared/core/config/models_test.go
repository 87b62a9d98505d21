package config_test

import (
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
)

func TestModelIDs(t *testing.T) {
	for id, want := range map[string]struct {
		valid   bool
		model   string
		profile bool
	}{
		"amazon.nova-lite-v1:0":                           {true, "amazon.nova-lite-v1:0", false},
		"eu.amazon.nova-lite-v1:0":                        {true, "amazon.nova-lite-v1:0", true},
		"global.anthropic.claude-haiku-4-5-20251001-v1:0": {true, "anthropic.claude-haiku-4-5-20251001-v1:0", true},
		"us-gov.anthropic.claude-3-haiku-20240307-v1:0":   {true, "anthropic.claude-3-haiku-20240307-v1:0", true},
		"zai.glm-4.7": {true, "zai.glm-4.7", false},
		"":            {false, "", false},
		"nova":        {false, "nova", false},
		"eu.nova":     {false, "nova", true},
		"arn:aws:bedrock:eu-west-1:000000000000:inference-profile/x": {
			false, "arn:aws:bedrock:eu-west-1:000000000000:inference-profile/x", false,
		},
		"amazon.*":                           {false, "amazon.*", false},
		"amazon.nova-lite-v1:0/../x":         {false, "amazon.nova-lite-v1:0/../x", false},
		"amazon." + strings.Repeat("x", 200): {false, "amazon." + strings.Repeat("x", 200), false},
	} {
		if got := config.IsModel(id); got != want.valid {
			t.Errorf("IsModel(%q) = %t, want %t", id, got, want.valid)
		}
		if model, profile := config.ProfileOf(id); model != want.model || profile != want.profile {
			t.Errorf("ProfileOf(%q) = %q, %t, want %q, %t", id, model, profile, want.model, want.profile)
		}
	}
	for _, id := range config.EmbeddingModels() {
		if !config.IsModel(id) || !config.IsEmbeddingModel(id) {
			t.Errorf("IsModel(%s) = %t, IsEmbeddingModel(%s) = %t, want true, true",
				id, config.IsModel(id), id, config.IsEmbeddingModel(id))
		}
	}
}

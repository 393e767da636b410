"""The calls of groups to groups: `groups` to those of this domain, `domains` to those of others, `calls` what
both share."""

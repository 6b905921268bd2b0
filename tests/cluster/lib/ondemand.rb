# Renders submit.yml.erb as Open OnDemand does, and prints script.native, one word in a line: ondemand.rb FILE FIELDS.
# FIELDS: what the user has typed, as a JSON object. The dashboard makes an OpenStruct of it, whose own binding the
# template has.
require "erb"
require "json"
require "ostruct"
require "yaml"

context = OpenStruct.new(JSON.parse(ARGV[1])).instance_eval { binding }
rendered = ERB.new(File.read(ARGV[0]), trim_mode: "-").result(context)
puts YAML.safe_load(rendered).fetch("script").fetch("native")

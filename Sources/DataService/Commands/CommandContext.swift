internal import JSON
internal import Wire

/// One request and its parts.
struct CommandContext {
    let frame: Frame
    let hash: UInt64
    let command: Command
    let framing: FramingExtras

    var replyTo: ReplyTo { frame.replyTo }
}

/// The JSON in an error's value: a reason for humans.
enum ErrorContext {
    static func json(_ reason: String) -> [UInt8] {
        JSONWriter.text { json in
            json.object { json in
                json.object("error") { $0.member("context", reason) }
            }
        }
    }
}

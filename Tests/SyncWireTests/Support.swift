import Bytes
import SyncWire

/// Calls `body` with the bytes of `text`, borrowed.
func view<Result>(_ text: String, _ body: (ByteView) throws -> Result) rethrows -> Result {
    try Array(text.utf8).withUnsafeBytes { try body(ByteView($0)) }
}

func view<Result>(_ bytes: [UInt8], _ body: (ByteView) throws -> Result) rethrows -> Result {
    try bytes.withUnsafeBytes { try body(ByteView($0)) }
}

/// The text that `body` writes.
func written(_ body: (ByteWriter) throws -> Void) rethrows -> String {
    let output = ByteWriter()
    try body(output)
    return output.view.text
}

/// The refusal that `body` throws; nil if it throws none.
func refusal<Result>(of body: () throws -> Result) -> RequestRefusal? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? RequestRefusal
    }
}

func document(_ text: String) throws -> DocumentBody {
    try view(text) { try DocumentBody($0) }
}

/// The known state of one key that a single writer writes and reads alternately.
///
/// Each write has a higher version. A read must return the newest acknowledged version, or a later
/// one whose answer was lost, and never an older version than the previous read.
struct CheckedKey {
    /// A violation that a read shows.
    enum Fault: Equatable {
        /// An acknowledged version is lost.
        case lost(acknowledged: Int, found: Int)
        /// A version with an unknown outcome was found, and then lost.
        case retracted(seen: Int, found: Int)
        /// A value that was never written.
        case strange(String)
    }

    let name: String
    private(set) var sent = 0
    private(set) var acknowledged = 0
    private(set) var seen = 0

    init(_ name: String) { self.name = name }

    private var before: String { "{\"key\":\"\(name)\",\"version\":" }

    /// The value of the next write.
    mutating func write() -> [UInt8] {
        sent += 1
        return Array("\(before)\(sent)}".utf8)
    }

    /// Records that the last write was acknowledged.
    mutating func succeeded() { acknowledged = sent }

    /// Checks the result of a read; nil if there is no document.
    mutating func found(_ value: [UInt8]?) -> Fault? {
        guard let version = value.map(version(of:)) ?? 0, version <= sent else {
            return .strange(String(decoding: value ?? [], as: UTF8.self))
        }
        defer { seen = version }
        if version < acknowledged {
            defer { acknowledged = version }
            return .lost(acknowledged: acknowledged, found: version)
        }
        return version < seen ? .retracted(seen: seen, found: version) : nil
    }

    private func version(of value: [UInt8]) -> Int? {
        let text = String(decoding: value, as: UTF8.self)
        guard text.hasPrefix(before), text.hasSuffix("}") else { return nil }
        return Int(text.dropFirst(before.count).dropLast())
    }
}

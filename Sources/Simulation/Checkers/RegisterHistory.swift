/// What clients did to one document, and when.
///
/// A value that is not there is nil; values are bytes.
package struct RegisterOperation: Hashable, Sendable {
    package enum Action: Hashable, Sendable {
        /// Found this.
        case read([UInt8]?)
        case set([UInt8])
        /// Only where nothing is.
        case add([UInt8])
        /// Only where something is.
        case replace([UInt8])
        case remove
        /// Only where this is.
        case compareAndSet(expected: [UInt8], new: [UInt8])
        /// To the number that is there, or stores `initial` where nothing is; the result, where it
        /// is known.
        case increment(by: UInt64, initial: UInt64, result: UInt64?)
        /// Was told that something is there, which is not `except`.
        case found(except: [UInt8]?)
    }

    package var action: Action
    package var called: UInt64
    /// Nil: nobody knows whether it happened; it may yet.
    package var returned: UInt64?
    package var client: Int

    package init(_ action: Action, called: UInt64, returned: UInt64?, client: Int = 0) {
        self.action = action
        self.called = called
        self.returned = returned
        self.client = client
    }

    /// Says something of the state and leaves it as it is.
    package var isRead: Bool {
        switch action {
        case .read, .found: true
        default: false
        }
    }

    /// What the action makes of a state; nil where it cannot have happened in it.
    func apply(to state: [UInt8]?) -> [UInt8]?? {
        switch action {
        case .read(let value): return state == value ? .some(state) : nil
        case .set(let value): return .some(value)
        case .add(let value): return state == nil ? .some(value) : nil
        case .replace(let value): return state != nil ? .some(value) : nil
        case .remove: return state != nil ? .some(nil) : nil
        case .compareAndSet(let expected, let new): return state == expected ? .some(new) : nil
        case .increment(let delta, let initial, let result):
            guard let after = Self.increment(state, delta, initial) else { return nil }
            if let result, result != after { return nil }
            return .some(Array(String(after).utf8))
        case .found(let other): return state != nil && state != other ? .some(state) : nil
        }
    }

    /// Nil where what is there is no number.
    private static func increment(_ state: [UInt8]?, _ delta: UInt64, _ initial: UInt64) -> UInt64?
    {
        guard let state else { return initial }
        return UInt64(String(decoding: state, as: UTF8.self)).map { $0 &+ delta }
    }
}

extension RegisterOperation: CustomStringConvertible {
    package var description: String {
        let end = returned.map(Self.seconds) ?? "?"
        return "\(Self.seconds(called))-\(end) client \(client) \(text)"
    }

    private var text: String {
        switch action {
        case .read(let value): "read \(Self.text(value))"
        case .set(let value): "set \(Self.text(value))"
        case .add(let value): "add \(Self.text(value))"
        case .replace(let value): "replace by \(Self.text(value))"
        case .remove: "remove"
        case .compareAndSet(let expected, let new):
            "\(Self.text(expected)) becomes \(Self.text(new))"
        case .increment(let delta, _, let result):
            "add \(delta)" + (result.map { " makes \($0)" } ?? "")
        case .found(nil): "there is something"
        case .found(let other): "there is something, not \(Self.text(other))"
        }
    }

    static func text(_ value: [UInt8]?) -> String {
        value.map { String(decoding: $0, as: UTF8.self) } ?? "nothing"
    }

    private static func seconds(_ time: UInt64) -> String {
        let (seconds, micros) = (time / 1_000_000_000, time / 1_000 % 1_000_000)
        return "\(seconds).\(String(micros + 1_000_000).dropFirst())"
    }
}

/// Values under small numbers, which are used again.
struct NumberedValues<Value: Sendable>: Sendable {
    private var values: [Value?] = []
    private var free: [UInt32] = []

    mutating func insert(_ value: Value) -> UInt32 {
        if let slot = free.popLast() {
            values[Int(slot)] = value
            return slot
        }
        values.append(value)
        return UInt32(values.count - 1)
    }

    mutating func remove(_ slot: UInt32) {
        values[Int(slot)] = nil
        free.append(slot)
    }

    func holds(_ slot: UInt32) -> Bool { slot < values.count && values[Int(slot)] != nil }

    /// - Precondition: The slot has a value.
    subscript(slot: UInt32) -> Value {
        get {
            guard let value = values[Int(slot)] else { preconditionFailure("slot \(slot) is free") }
            return value
        }
        // In place: a copy of the value would copy its arrays.
        _modify {
            guard var value = values[Int(slot)] else { preconditionFailure("slot \(slot) is free") }
            values[Int(slot)] = nil
            defer { values[Int(slot)] = value }
            yield &value
        }
    }
}

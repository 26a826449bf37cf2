// The transfer engine for C++17: te_c.h with owners that free and errors that are thrown.
//
// An Engine ends when it goes out of scope, a Registration unregisters, a Batch calls its tasks back and
// waits for them before it is freed. Calls throw te::Error, which says what te_last_error says. Engines are
// shared between threads by reference; the other classes belong to one thread at a time. None of these
// may outlive its Engine.
#ifndef TE_HPP
#define TE_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "te_c.h"

namespace te {

// Why a call failed.
class Error : public std::runtime_error {
  public:
    explicit Error(const te_error_t &error)
        : std::runtime_error(error.text[0] ? error.text : "the transfer engine gave no reason"),
          fields_(error) {}

    // A TE_ERR_ number.
    int code() const noexcept { return fields_.code; }
    // Phase, peer, TE_REMOTE_, TE_LOCAL_, position and more.
    const te_error_t &fields() const noexcept { return fields_; }

    // The last call of this thread that failed; its number is `code` where the library kept none.
    static Error last(int code = TE_ERR_INVALID_ARGUMENT) {
        te_error_t error;
        if (te_last_error(&error) == 0) {
            error.code = code;
        }
        return Error(error);
    }

  private:
    te_error_t fields_;
};

namespace detail {

inline int check(int code) {
    if (code < 0) {
        throw Error::last(code);
    }
    return code;
}

// Calls that answer with the positive numbers of a status.
inline void check_status(int code) {
    if (code != 0) {
        throw Error::last();
    }
}

inline std::uint64_t millis(std::chrono::milliseconds time) {
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

} // namespace detail

// What an Engine is made with.
struct Options {
    std::string name;
    std::string metadata = "P2PHANDSHAKE";
    std::vector<std::string> filters = {};
    bool auto_discover = true;
};

// One read or write.
struct Request {
    int opcode;
    void *local;
    segment_id_t target;
    std::uint64_t address;
    std::uint64_t length;

    static Request read(void *local, segment_id_t target, std::uint64_t address,
                        std::uint64_t length) {
        return {OPCODE_READ, local, target, address, length};
    }
    static Request write(void *local, segment_id_t target, std::uint64_t address,
                         std::uint64_t length) {
        return {OPCODE_WRITE, local, target, address, length};
    }
};

struct Notify {
    std::string name;
    std::string message;
};

class Engine;

// Memory that is registered as long as this lives.
class Registration {
  public:
    Registration(Registration &&other) noexcept
        : engine_(std::exchange(other.engine_, nullptr)), address_(other.address_) {}
    Registration &operator=(Registration &&other) noexcept {
        std::swap(engine_, other.engine_);
        std::swap(address_, other.address_);
        return *this;
    }
    Registration(const Registration &) = delete;
    Registration &operator=(const Registration &) = delete;
    // Where a transfer still uses the memory it stays registered: call unregister() to know.
    ~Registration() {
        if (engine_ != nullptr) {
            unregisterLocalMemory(engine_, address_);
        }
    }

    // Throws with TE_ERR_BATCH_BUSY where a transfer still uses the memory, and may be called again.
    void unregister() {
        if (engine_ != nullptr) {
            detail::check(unregisterLocalMemory(engine_, address_));
            engine_ = nullptr;
        }
    }

  private:
    friend class Engine;
    Registration(transfer_engine_t engine, void *address) : engine_(engine), address_(address) {}

    transfer_engine_t engine_;
    void *address_;
};

// Requests that are submitted and waited for together.
class Batch {
  public:
    Batch(Batch &&other) noexcept
        : engine_(other.engine_), id_(std::exchange(other.id_, INVALID_BATCH)) {}
    Batch &operator=(Batch &&other) noexcept {
        std::swap(engine_, other.engine_);
        std::swap(id_, other.id_);
        return *this;
    }
    Batch(const Batch &) = delete;
    Batch &operator=(const Batch &) = delete;
    ~Batch() {
        if (id_ != INVALID_BATCH && freeBatchID(engine_, id_) == 4) {
            te_cancel(engine_, id_);
            te_wait(engine_, id_, last_wait, nullptr);
            freeBatchID(engine_, id_);
        }
    }

    batch_id_t id() const noexcept { return id_; }

    // All of the requests, or none.
    void submit(const std::vector<Request> &requests) {
        auto entries = entries_of(requests);
        detail::check_status(submitTransfer(engine_, id_, entries.data(), entries.size()));
    }

    // Likewise; once every task completed the first one's peer gets `notify`.
    void submit(const std::vector<Request> &requests, Notify notify) {
        auto entries = entries_of(requests);
        notify_msg_t given = {notify.name.data(), notify.message.data()};
        detail::check_status(
            submitTransferWithNotify(engine_, id_, entries.data(), entries.size(), given));
    }

    te_batch_status_t status() const {
        te_batch_status_t status;
        detail::check(te_batch_status(engine_, id_, &status));
        return status;
    }

    transfer_status_t task(std::size_t index) const {
        transfer_status_t status;
        detail::check_status(getTransferStatus(engine_, id_, index, &status));
        return status;
    }

    // Whether it is final within `limit`.
    bool wait_final(std::chrono::milliseconds limit, te_batch_status_t *status = nullptr) const {
        int code = te_wait(engine_, id_, detail::millis(limit), status);
        return code == TE_ERR_CLOCK ? false : detail::check(code) == 0;
    }

    // Waits until every task completed; gives the bytes. Throws the first fault, or TE_ERR_CLOCK.
    std::uint64_t wait(std::chrono::milliseconds limit) const {
        te_batch_status_t status;
        detail::check(te_wait(engine_, id_, detail::millis(limit), &status));
        for (std::size_t index = 0; status.failed > 0 && index < status.total; ++index) {
            te_error_t fault;
            if (detail::check(te_task_fault(engine_, id_, index, &fault)) == 1) {
                throw Error(fault);
            }
        }
        return status.bytes;
    }

    void cancel() { detail::check(te_cancel(engine_, id_)); }

  private:
    friend class Engine;
    Batch(transfer_engine_t engine, batch_id_t id) : engine_(engine), id_(id) {}

    static std::vector<transfer_request_t> entries_of(const std::vector<Request> &requests) {
        std::vector<transfer_request_t> entries;
        entries.reserve(requests.size());
        for (const Request &one : requests) {
            entries.push_back({one.opcode, one.local, one.target, one.address, one.length});
        }
        return entries;
    }

    // A destructor must not wait for ever; tasks that were called back end within this, or their
    // memory is in quarantine.
    static constexpr std::uint64_t last_wait = 30000;

    transfer_engine_t engine_;
    batch_id_t id_;
};

class Engine {
  public:
    explicit Engine(const Options &options) {
        std::vector<const char *> filters;
        for (const std::string &filter : options.filters) {
            filters.push_back(filter.c_str());
        }
        te_options_t given = {};
        given.size = sizeof given;
        given.metadata = options.metadata.c_str();
        given.name = options.name.c_str();
        given.filters = filters.empty() ? nullptr : filters.data();
        given.filter_count = filters.size();
        given.auto_discover = options.auto_discover;
        engine_ = te_create(&given);
        if (engine_ == nullptr) {
            throw Error::last();
        }
    }
    Engine(Engine &&other) noexcept : engine_(std::exchange(other.engine_, nullptr)) {}
    Engine &operator=(Engine &&other) noexcept {
        std::swap(engine_, other.engine_);
        return *this;
    }
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;
    ~Engine() {
        if (engine_ != nullptr) {
            destroyTransferEngine(engine_);
        }
    }

    // For calls that stand only in the C headers.
    transfer_engine_t handle() const noexcept { return engine_; }

    // Where peers find this engine, which in P2P mode is the name they open.
    std::string address() const {
        char text[320];
        detail::check(getLocalIpAndPort(engine_, text, sizeof text));
        return text;
    }

    void install(const std::string &transport) {
        if (installTransport(engine_, transport.c_str(), nullptr) == nullptr) {
            throw Error::last();
        }
    }

    [[nodiscard]] Registration register_memory(void *address, std::size_t length,
                                               const std::string &location = "*",
                                               bool remote_accessible = true) {
        detail::check(registerLocalMemory(engine_, address, length, location.c_str(),
                                          remote_accessible));
        return Registration(engine_, address);
    }

    bool overlaps(const void *address, std::size_t length) const {
        return detail::check(te_check_overlap(engine_, address, length)) == 1;
    }

    segment_id_t open(const std::string &peer) {
        return detail::check(openSegment(engine_, peer.c_str()));
    }

    // Where the first buffer of a peer begins.
    std::uint64_t first_buffer(const std::string &peer) const {
        std::uint64_t address = 0;
        detail::check(te_first_buffer_address(engine_, peer.c_str(), &address));
        return address;
    }

    Batch batch(std::size_t capacity) {
        batch_id_t id = allocateBatchID(engine_, capacity);
        if (id == INVALID_BATCH) {
            throw Error::last();
        }
        return Batch(engine_, id);
    }

    // Moves the requests and waits; gives the bytes.
    std::uint64_t transfer(const std::vector<Request> &requests, std::chrono::milliseconds limit) {
        Batch all = batch(requests.size());
        all.submit(requests);
        return all.wait(limit);
    }

    void notify(const std::string &peer, Notify notify) {
        detail::check(
            te_send_notify(engine_, peer.c_str(), {notify.name.data(), notify.message.data()}));
    }

    std::vector<Notify> take_notifies() {
        int size = 0;
        notify_msg_t *messages = getNotifsFromEngine(engine_, &size);
        std::vector<Notify> all;
        try {
            for (int index = 0; index < size; ++index) {
                all.push_back({messages[index].name, messages[index].msg});
            }
        } catch (...) {
            freeNotifsMsgBuf(messages, size);
            throw;
        }
        freeNotifsMsgBuf(messages, size);
        return all;
    }

    // Whether the peer answers, and how long that took.
    std::chrono::nanoseconds probe(const std::string &peer) const {
        std::uint64_t round_trip = 0;
        detail::check(te_probe(engine_, peer.c_str(), &round_trip));
        return std::chrono::nanoseconds(round_trip);
    }

    te_close_report_t close(std::chrono::milliseconds limit) {
        te_close_report_t report;
        detail::check(te_close(engine_, detail::millis(limit), &report));
        return report;
    }

  private:
    transfer_engine_t engine_ = nullptr;
};

} // namespace te

#endif // TE_HPP

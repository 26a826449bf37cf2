/* te.hpp: what is owned is freed, what fails is thrown. */
#include "kit.h"

#include <cstring>
#include <thread>
#include <vector>

#include "te.hpp"

using namespace std::chrono_literals;

namespace {

te::Options here() {
    te::Options options;
    options.name = "127.0.0.1";
    return options;
}

/* The number that is thrown; 0 where nothing is. */
template <typename Call> int thrown(Call call) {
    try {
        call();
    } catch (const te::Error &error) {
        if (std::strlen(error.what()) < 8)
            FAIL("it has no reason: %s", error.what());
        return error.code();
    }
    return 0;
}

struct Two {
    te::Engine to{here()}, from{here()};
    std::vector<unsigned char> theirs = std::vector<unsigned char>(1 << 20);
    std::vector<unsigned char> ours = std::vector<unsigned char>(1 << 20);
    te::Registration published = to.register_memory(theirs.data(), theirs.size());
    te::Registration registered = from.register_memory(ours.data(), ours.size());
    segment_id_t segment = from.open(to.address());
    std::uint64_t at = from.first_buffer(to.address());
};

void bytes_move_and_batches_are_freed() {
    Two two;

    fill(two.ours.data(), two.ours.size(), 1);
    SAME(two.from.transfer({te::Request::write(two.ours.data(), two.segment, two.at, 1 << 20)}, 10s),
         1 << 20);
    HOLDS(two.theirs.data(), two.theirs.size(), 1);
    fill(two.theirs.data(), two.theirs.size(), 2);
    batch_id_t id;
    {
        te::Batch batch = two.from.batch(2);
        id = batch.id();
        batch.submit({te::Request::read(two.ours.data(), two.segment, two.at, 1 << 19)});
        batch.submit({te::Request::read(two.ours.data() + (1 << 19), two.segment,
                                        two.at + (1 << 19), 1 << 19)},
                     {"kit", "both halves"});
        SAME(batch.wait(10s), 1 << 20);
        SAME(batch.task(1).status, STATUS_COMPLETED);
        SAME(batch.status().completed, 2);
        te::Batch moved = std::move(batch);
        SAME(moved.id(), id);
    }
    HOLDS(two.ours.data(), two.ours.size(), 2);
    te_batch_status_t status;
    GIVES(te_batch_status(two.from.handle(), id, &status), -1);
    auto notifies = two.to.take_notifies();
    SAME(notifies.size(), 1);
    CHECK(notifies[0].name == "kit" && notifies[0].message == "both halves");
    two.from.notify(two.to.address(), {"again", ""});
    CHECK(two.from.probe(two.to.address()) < 2s);
}

void what_fails_is_thrown_with_its_reason() {
    Two two;
    te::Options odd = here();
    char outside[64];

    odd.metadata = "gopher://x";
    CHECK(thrown([&] { te::Engine engine(odd); }) < 0);
    odd = here();
    odd.filters = {"no_such_nic"};
    CHECK(thrown([&] { te::Engine engine(odd); }) < 0);
    CHECK(thrown([&] { two.from.open("127.0.0.1:1"); }) < 0);
    CHECK(thrown([&] { two.from.install("carrier-pigeon"); }) < 0);
    CHECK(thrown([&] { two.from.probe("127.0.0.1:1"); }) < -100);
    SAME(thrown([&] { (void)two.from.register_memory(two.ours.data() + 1, 10); }), -7);
    auto request = te::Request::write(outside, two.segment, two.at + two.theirs.size(), 64);
    CHECK(thrown([&] { two.from.transfer({request}, 10s); }) < 0);
    try {
        two.from.transfer({request}, 10s);
    } catch (const te::Error &error) {
        CHECK(error.fields().request == 0 && two.to.address() == error.fields().peer);
    }
    CHECK(thrown([&] { two.from.batch(1).submit({request, request}); }) == -2);
}

void a_batch_that_is_left_is_called_back_and_freed() {
    setenv("MC_FORCE_TCP", "1", 1);
    struct peer peer = peer_start(1 << 20, 1);
    {
        te::Engine engine(here());
        std::vector<unsigned char> ours(1 << 20);
        auto registered = engine.register_memory(ours.data(), ours.size());
        segment_id_t segment = engine.open(peer.name);
        peer_stop(&peer);
        {
            te::Batch batch = engine.batch(1);
            batch.submit({te::Request::read(ours.data(), segment, peer.address, ours.size())});
            CHECK(!batch.wait_final(50ms));
            SAME(thrown([&] { batch.wait(50ms); }), TE_ERR_CLOCK);
        }
        /* The memory is free, so that it unregisters. */
        registered.unregister();
        fill(ours.data(), ours.size(), 3);
        peer_continue(&peer);
        std::this_thread::sleep_for(100ms);
        HOLDS(ours.data(), ours.size(), 3);
        SAME(engine.close(5s).joined, 1);
    }
    peer_quit(&peer);
}

void memory_unregisters_with_its_owner() {
    te::Engine engine(here());
    unsigned char *at = memory(1 << 16);

    {
        auto first = engine.register_memory(at, 1 << 12);
        auto second = std::move(first);
        CHECK(engine.overlaps(at, 1));
    }
    CHECK(!engine.overlaps(at, 1));
    te::Engine moved = std::move(engine);
    auto registered = moved.register_memory(at, 1 << 12, "cpu:0", false);
    registered.unregister();
    registered.unregister();
    CHECK(!moved.overlaps(at, 1));
}

} // namespace

TESTS(TEST(bytes_move_and_batches_are_freed), TEST(what_fails_is_thrown_with_its_reason),
      TEST(a_batch_that_is_left_is_called_back_and_freed), TEST(memory_unregisters_with_its_owner))
